// See maxmargin/linear_losses.hpp. Included once per instruction-set level.
#pragma once
#include <algorithm>
#include <cmath>

#include "maxmargin/linear_losses.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

inline double clipped(double value, double low, double high) {
    value = value < low ? low : value;
    return value > high ? high : value;
}

template <bool two_sided, bool squared, bool anchored>
SlopeOfLosses slope_of(const RoundedLosses& of, const double* moves, double length, std::int64_t first, std::int64_t last) {
    double slope = 0.0, curvature = 0.0;
    const double scale = of.scale, epsilon = of.epsilon;
#pragma omp simd reduction(+ : slope, curvature)
    for (std::int64_t i = first; i < last; ++i) {
        const double reach = of.reach[i], cost = std::abs(reach), k = scale * cost, move = moves[i];
        const double end = squared ? unbounded : 1.0;
        const double low = two_sided ? -end * cost : end * (reach < 0.0 ? reach : 0.0);
        const double high = two_sided ? end * cost : end * (reach > 0.0 ? reach : 0.0);
        double a = k * (of.targets[i] - of.scores[i] - length * move) + (anchored ? of.anchor[i] : 0.0);
        if constexpr (two_sided) a -= clipped(a, -k * epsilon, k * epsilon);
        const double beta = clipped(a, low, high);
        slope -= beta * move;
        const bool bends = (a > low) & (a < high) & (!two_sided | (a != 0.0));
        curvature += bends ? k * move * move : 0.0;
    }
    return {slope, curvature};
}

template <bool two_sided, bool squared, bool anchored>
SumsOfLosses duals_of(const RoundedLosses& of, std::int64_t first, std::int64_t last, double* betas, char* bends) {
    double losses = 0.0, duals = 0.0, gaps = 0.0, total = 0.0;
    const double scale = of.scale, epsilon = of.epsilon;
#pragma omp simd reduction(+ : losses, duals, gaps, total)
    for (std::int64_t i = first; i < last; ++i) {
        const double reach = of.reach[i], cost = std::abs(reach), k = scale * cost, target = of.targets[i];
        const double end = squared ? unbounded : 1.0;
        const double low = two_sided ? -end * cost : end * (reach < 0.0 ? reach : 0.0);
        const double high = two_sided ? end * cost : end * (reach > 0.0 ? reach : 0.0);
        const double r = target - of.scores[i];
        double a = k * r + (anchored ? of.anchor[i] : 0.0);
        if constexpr (two_sided) a -= clipped(a, -k * epsilon, k * epsilon);
        const double beta = clipped(a, low, high);
        betas[i - first] = beta;
        bends[i - first] = (a > low) & (a < high) & (!two_sided | (a != 0.0));
        const double within = two_sided ? clipped(r, -epsilon, epsilon) : 0.0, excess = r - within;
        const double tube = two_sided ? epsilon * std::abs(beta) : 0.0;
        if constexpr (squared) {  // the dual is the best one for r: beta = 2 C excess
            losses += 0.5 * beta * excess;
            duals += target * beta - tube - 0.5 * beta * (cost > 0.0 ? beta / (2.0 * cost) : 0.0);
        } else {
            const double optimal = excess > 0.0 ? high : low;
            losses += optimal * excess;
            duals += target * beta - tube;
            gaps += (optimal - beta) * excess + tube - beta * within;
        }
        total += beta;
    }
    SumsOfLosses sums;
    sums.losses = losses;
    sums.duals = duals;
    sums.gaps = gaps;
    sums.total = total;
    return sums;
}

inline SlopeOfLosses slope(const RoundedLosses& of, const double* moves, double length, std::int64_t first, std::int64_t last) {
    if (of.squared)
        return (of.two_sided ? slope_of<true, true, false> : slope_of<false, true, false>)(of, moves, length, first, last);
    return (of.two_sided ? slope_of<true, false, true> : slope_of<false, false, true>)(of, moves, length, first, last);
}

inline SumsOfLosses duals(const RoundedLosses& of, std::int64_t first, std::int64_t last, double* betas, char* bends) {
    if (of.squared)
        return (of.two_sided ? duals_of<true, true, false> : duals_of<false, true, false>)(of, first, last, betas, bends);
    return (of.two_sided ? duals_of<true, false, true> : duals_of<false, false, true>)(of, first, last, betas, bends);
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
