// Certificates of many small machines at once, each by one thread: what `certify` in src/maxmargin/certificates.py computes, for
// boxes without a shift and at most one sum to keep. Shares no code with the solvers but the kernels.
#pragma once
#include <functional>
#include <vector>

#include "maxmargin/samples.hpp"

namespace maxmargin {

// What the certificate of a point says; its documentation is that of `Certificate` in src/maxmargin/certificates.py.
struct Proof {
    double level = 0.0;  // with the smallest gap
    double dual = 0.0;
    double gap = 0.0;    // at the worst gradient that rounding allows
    double plain = 0.0;  // the same at the gradient as it is
    double violation = 0.0;
    double box_residual = 0.0;
    double equality_residual = 0.0;
    double size = 0.0;         // sum of |beta|
    double value_error = 0.0;  // of the dual value, from gradients that were not recomputed
    int checked = 0;           // gradients that were
};

// A point of a dual problem; `terms` and `gradient` are written.
struct ClaimedPoint {
    const std::int32_t* members;  // the samples that its variables stand for
    int size;
    const double *linear, *lower, *upper, *beta;
    const double* claim;  // the solver's gradient at a point where it has converged; null: it counts for nothing
    bool coupled;
    double* terms;               // the gap, sample by sample
    double* gradient = nullptr;  // if given: the gradient as it was computed, and the claim where it was not
};

// Computes the gradient of some variables, and bounds on the errors of its entries, and writes them to their places.
using Recompute = std::function<void(const std::vector<int>& at, double* gradient, double* error)>;

// The certificate of a point. Its gradient is computed anew: everywhere, or, if there is a claim, where it can change the gap.
Proof prove(const ClaimedPoint& point, const Recompute& compute);

// Bounds on the errors of kernel sums over some of the samples, from numbers of each of them: the sum of |beta_s| times
//
//     unit sizes[s] sizes[q]  +  of_products[s] + of_products[q]  +  constant  +  min(of_centre[s], of_centre[q])
//
// where the minimum is taken after the summation. `rounding_of_sums` and `rounding_of_distances` in src/maxmargin/gram.py have
// the reasons.
struct SumErrors {
    double unit, constant;
    const double *sizes, *of_products, *of_centre;  // null: one, zero, zero
};

// Certificates from the samples alone: the gradient of each point is computed anew, or, if there is a claim, only where it can
// change the gap.
std::vector<Proof> prove_each(const Kernel& kernel, const Samples<double>& samples, const SumErrors& errors,
                              const std::vector<ClaimedPoint>& points);

}  // namespace maxmargin
