// Newton's method for linear machines, over the primal problem (P) of linear_problem.hpp.
//
// A squared loss is smooth, and piecewise quadratic: Newton's method with an exact line search solves it in few steps. Another
// loss has corners. The method of multipliers rounds them: around the duals `anchor`,
//
//     loss_i(r; anchor) = max over the box of  beta r - eps |beta| - h_i/2 (beta - anchor_i)^2,      h_i = width / C_i,
//
// is smooth, its slope goes from one end of the box to the other over residuals of this width, and the minimum of the problem
// with these losses gives duals beta. They are the next anchor; the width shrinks; the exact solution is a fixed point, whatever
// the width. (Proximal points of the dual: Rockafellar 1976; for support vector machines: Yan and Li 2020.) The gap of the
// problem itself is
//
//     1/2 |w - sum_i beta_i x_i|^2 + sum_i loss_i(r_i) + eps |beta_i| + q_i/2 beta_i^2 - beta_i r_i
//
// and both parts are known at each step: when the first, the error of the smooth problem, is a small share of the second, the
// error of the smoothing, it is time for the next anchor.
//
// A step solves (R + X' D X) d = -gradient, D_i = 1 / h_i on the *band*, the samples whose dual is inside its box. With few
// columns the matrix is kept, and only the rows that enter or leave the band change it. Else conjugate gradients read the rows.
#pragma once
#include <memory>

#include "maxmargin/linear_problem.hpp"
#include "maxmargin/samples.hpp"

namespace maxmargin {

// `weights` has the features, then the bias if there is one. Both `beta` and `weights` are where the method starts.
template <class View>
std::unique_ptr<LinearSolver> newton_solver(const View& X, const LinearProblem& problem, double* beta, double* weights);

}  // namespace maxmargin
