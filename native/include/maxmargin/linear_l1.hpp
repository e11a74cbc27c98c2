// Coordinate descent for squared losses with an L1 penalty, over the weights (Yuan et al. 2010).
//
//     min  |w|_1 + (|b| if the bias is regularised) + sum_i C_i max(0, r_i on its side)^2,         r_i = t_i - w.x_i - c b
//     max  sum_i t_i beta_i - q_i/2 beta_i^2   s.t.  beta_i in its half-line,  |sum_i beta_i x_ij| <= 1 for each column j,
//                                                    the same of the column c, or sum_i beta_i = 0 if the bias is free
//
// A step moves one weight along its second-order model, shortened until the objective falls. Weights at zero whose slope is well
// below one are left out (shrinking). At the optimum beta_i = 2 C_i r_i; at other points these duals, scaled until they are
// feasible, prove a gap.
#pragma once
#include <memory>

#include "maxmargin/linear_problem.hpp"
#include "maxmargin/samples.hpp"

namespace maxmargin {

// `columns` is the transposed training set: row j of it is column j. `beta` is set to feasible duals after each stretch.
template <class View>
std::unique_ptr<LinearSolver> l1_solver(const View& columns, const LinearProblem& problem, double* beta, double* weights);

}  // namespace maxmargin
