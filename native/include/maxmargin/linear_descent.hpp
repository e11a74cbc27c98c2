// Coordinate descent for linear machines, over the dual problem (D) of linear_problem.hpp (Hsieh et al. 2008, Ho and Lin 2012).
//
// A step moves one dual to its best value, given the weights w = sum_i beta_i x_i, which it keeps up to date: one product with a
// row, and one row added. Duals that stay at an end of their box, or at the corner of the tube, are left out (shrinking) until
// those that remain have converged.
//
// A free bias b is the multiplier of sum_i beta_i = m: the method of multipliers adds rho/2 (sum_i beta_i - m)^2, that is a bias
// column of squared length rho, and moves b by rho (sum_i beta_i - m) after each epoch.
//
// The steps depend on each other, so one machine runs on one thread; the machines of several classes run side by side. (Blocks of
// samples with weights of their own, added after each round with the best step length, needed three to ten times as many epochs.)
//
// The gap is estimated from the terms loss_i(r_i) + eps |beta_i| + q_i/2 beta_i^2 - beta_i r_i that the steps meet on their way.
#pragma once
#include <memory>

#include "maxmargin/linear_problem.hpp"
#include "maxmargin/samples.hpp"

namespace maxmargin {

// `beta` is where the method starts; `weights` are set to those that belong to it. If the rows are a block of a larger training
// set, `weights` stay as they are: they hold what the duals of all blocks add up to.
template <class View>
std::unique_ptr<LinearSolver> descent_solver(const View& X, const LinearProblem& problem, double* beta, double* weights,
                                             bool is_block = false);

}  // namespace maxmargin
