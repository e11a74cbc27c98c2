// Linear machines as a pair of problems over the rows x_i of a training set. With residuals r_i = t_i - w.x_i - c b:
//
//     min  1/2 |w|^2 + (1/2 b^2 if the bias is regularised) + m c b + sum_i loss_i(r_i)               over w, b     (P)
//     max  sum_i t_i beta_i - eps |beta_i| - q_i/2 beta_i^2  -  1/2 |sum_i beta_i (x_i, c)|^2           over beta     (D)
//     s.t. l_i <= beta_i <= u_i,  and  sum_i beta_i = m  if the bias is free
//
//     loss_i(r) = max over the box of  beta r - eps |beta| - q_i/2 beta^2
//
// c is the value of the bias column. If the bias is free, it is no part of the square in (D). See
// docs/decisions/23-linear-machines.md.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace maxmargin {

enum class Bias { none, regularised, free };

// The loss of one sample, by its box [lower, upper], its share `shift` = q_i of the squared duals, and eps.
struct LinearLoss {
    double lower, upper, shift, epsilon;

    double clip(double beta) const { return std::min(std::max(beta, lower), upper); }

    // The maximiser of beta z - eps |beta| - curvature/2 beta^2 over the box, curvature > 0.
    double best(double z, double curvature) const {
        const double excess = z - std::min(std::max(z, -epsilon), epsilon);
        return clip(excess / curvature);
    }
    // Whether `best` changes with z at a point where its value is beta.
    bool bends(double beta) const { return beta != 0.0 && beta > lower && beta < upper; }

    double value(double r) const {
        const double excess = r - std::min(std::max(r, -epsilon), epsilon);
        if (excess == 0.0) return 0.0;  // also for boxes without an end
        if (shift == 0.0) return excess > 0.0 ? upper * excess : lower * excess;
        const double beta = clip(excess / shift);
        return beta * excess - 0.5 * shift * beta * beta;
    }
    // loss(r) + eps |beta| + q/2 beta^2 - beta r, as a sum of terms >= 0: zero if and only if beta is optimal for r.
    double gap(double r, double beta) const {
        const double within = std::min(std::max(r, -epsilon), epsilon), excess = r - within;
        const double tube = epsilon * std::abs(beta) - beta * within;
        if (shift == 0.0) {
            if (excess == 0.0) return tube;
            return tube + (excess > 0.0 ? (upper - beta) * excess : (lower - beta) * excess);
        }
        const double optimal = clip(excess / shift), off = beta - optimal;
        return tube + 0.5 * shift * off * off - off * (excess - shift * optimal);
    }
};

// What is given of each sample: its target t_i, and `reach`, the signed cost. The box of a sample of cost C is
//     one-sided   [0, C] or [-C, 0], by the sign of its reach;  squared: [0, inf) or (-inf, 0]
//     two-sided   [-C, C];                                      squared: (-inf, inf)
// and q = 1 / 2C for squared losses, else 0. A sample of cost zero has the box {0}.
struct LinearProblem {
    const double* targets;
    const double* reach;
    std::int64_t n_samples;
    double epsilon;
    bool two_sided, squared;
    Bias bias;
    double constant;  // c
    double total;     // m

    LinearLoss loss(std::int64_t i) const {
        const double cost = reach[i], size = std::abs(cost);
        if (size == 0.0) return {0.0, 0.0, 0.0, epsilon};
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const double end = squared ? infinity : size;
        const bool down = two_sided || cost < 0.0, up = two_sided || cost > 0.0;
        return {down ? -end : 0.0, up ? end : 0.0, squared ? 0.5 / size : 0.0, epsilon};
    }
    bool has_bias() const { return bias != Bias::none; }
    // The regularisation of the bias, as a weight of the last column.
    double ridge() const { return bias == Bias::regularised ? 1.0 : 0.0; }
};

// How far a solver came. `gap` is the solver's own figure; the certificate is computed elsewhere.
struct LinearProgress {
    double primal, dual, gap;
    double passes;        // over the stored values of the training set, in units of one pass over all rows
    std::int64_t rounds;  // epochs, or Newton steps
    bool done, stalled;
};

// A solver of a LinearProblem. It works on the duals beta (n) and the weights (the features, then the bias) of the caller.
class LinearSolver {
public:
    virtual ~LinearSolver() = default;
    // Go on until the gap is at most gap_tol max(|primal|, |dual|), or for this many rounds or seconds.
    virtual LinearProgress advance(double gap_tol, std::int64_t max_rounds, double seconds) = 0;
};

}  // namespace maxmargin
