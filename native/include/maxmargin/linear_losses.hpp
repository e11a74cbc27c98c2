// The losses of linear machines over many samples at once, for loops without branches.
#pragma once
#include <cstdint>

#include "maxmargin/tile_problem.hpp"  // unbounded

namespace maxmargin {

// The samples and the rounded losses of linear_newton.hpp at their scores. The slope of a rounded loss is the dual
//     beta_i = clip(soft(anchor_i + k_i r_i, k_i eps), l_i, u_i),      k_i = 1 / h_i = scale |reach_i|,      r_i = t_i - score_i
// where soft(a, e) = a - clip(a, -e, e). A squared loss has no anchor (null) and scale = 2; its box ends at +-`unbounded`.
struct RoundedLosses {
    const double* targets;
    const double* reach;
    const double* anchor;
    const double* scores;
    double scale, epsilon;
    bool two_sided, squared;
};

struct SlopeOfLosses {
    double slope, curvature;
};

// The sums of a pass over some samples.
struct SumsOfLosses {
    double losses = 0.0;  // sum_i loss_i(r_i), not rounded
    double duals = 0.0;   // sum_i t_i beta_i - eps |beta_i| - q_i/2 beta_i^2
    double gaps = 0.0;    // sum_i loss_i(r_i) + eps |beta_i| + q_i/2 beta_i^2 - beta_i r_i
    double total = 0.0;   // sum_i beta_i
    void add(const SumsOfLosses& other) {
        losses += other.losses;
        duals += other.duals;
        gaps += other.gaps;
        total += other.total;
    }
};

struct LossLoops {
    // d/dt and d2/dt2 of the sum of the losses of the samples first..last at the scores + t moves, at t = length.
    SlopeOfLosses (*slope)(const RoundedLosses&, const double* moves, double length, std::int64_t first, std::int64_t last);
    // beta of the samples first..last (beta[0] is that of `first`), and whether it changes with the score.
    SumsOfLosses (*duals)(const RoundedLosses&, std::int64_t first, std::int64_t last, double* beta, char* bends);
};

}  // namespace maxmargin
