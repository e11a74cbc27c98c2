// What the certificate of a linear machine needs of the training set, in one pass over it. Shares no code with the solvers but
// the statement of the problem.
#pragma once
#include "maxmargin/linear_problem.hpp"
#include "maxmargin/samples.hpp"

namespace maxmargin {

// Sums over the samples, with r_i = t_i - w.x_i - c b:
struct LinearEvidence {
    double gaps;       // sum_i loss_i(r) + eps |beta_i| + q_i/2 beta_i^2 - beta_i r, at the worst r within rounding of r_i
    double plain;      // the same at r_i
    double duals;      // sum_i t_i beta_i - eps |beta_i| - q_i/2 beta_i^2
    double total;      // sum_i beta_i
    double size;       // sum_i |beta_i|
    double reach;      // sum_i |beta_i| |x_i|
    double violation;  // how far a residual is from where its dual allows it, at most
    double box;        // how far a dual is outside its box, at most
};

// terms[i]: the share of sample i in `gaps`; products = sum_i beta_i x_i. All in float64.
//
// A score of k terms is off by at most (k + 2) u |x_i| |w|, u the unit roundoff. The rows are summed in parts of at most
// `rows_of_part`, and the sums of the parts with their rounding errors carried along; so the error of the vector `products` is at
// most (rows_of_part + 2) u sum_i |beta_i| |x_i|.
inline constexpr int rows_of_part = 4096;

template <class View>
LinearEvidence linear_evidence(const View& X, const LinearProblem& problem, const double* weights, const double* beta,
                               double* terms, double* products);

}  // namespace maxmargin
