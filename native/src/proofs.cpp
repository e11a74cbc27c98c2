#include "maxmargin/proofs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "maxmargin/exact_sums.hpp"
#include "maxmargin/threads.hpp"
#include "maxmargin/tiles.hpp"
#include "maxmargin/twofold.hpp"

namespace maxmargin {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double epsilon = std::numeric_limits<double>::epsilon();
// As in certificates.py, which has the reasons.
constexpr std::int64_t few_entries = 30'000;
constexpr int checked_at_random = 64;
constexpr double safety = 8.0;
constexpr double negligible_weight = 1e-12;  // share of all weights: a smaller one is only a rounding error

// The least gradient of a variable that may rise, and the largest of one that may fall; a room of at most `tolerance` is none.
std::pair<double, double> extremes(const ClaimedPoint& point, const double* gradient, double tolerance) {
    double lowest = infinity, highest = -infinity;
    for (int i = 0; i < point.size; ++i) {
        if (point.upper[i] - point.beta[i] > tolerance) lowest = std::min(lowest, gradient[i]);
        if (point.beta[i] - point.lower[i] > tolerance) highest = std::max(highest, gradient[i]);
    }
    return {lowest, highest};
}

// A number that changes with each of the values.
std::uint64_t digest(const double* values, int n) {
    std::uint64_t state = 0;
    for (int i = 0; i < n; ++i) state = (state ^ std::bit_cast<std::uint64_t>(values[i])) * 0x9E3779B97F4A7C15u;
    return state;
}

double middle(double lowest, double highest) {
    if (!std::isfinite(lowest)) return std::isfinite(highest) ? highest : 0.0;
    return std::isfinite(highest) ? 0.5 * (lowest + highest) : lowest;
}

// The level v that minimises the gap sum_i fall_i max(G_i - v, 0) + rise_i max(v - G_i, 0), with fall = beta - lower and rise =
// upper - beta: a weighted quantile, or its middle. Below all variables that may rise the sum only falls, above all that may fall
// it only rises, so the minimum lies between the two, in a short range with few variables.
double best_level(const ClaimedPoint& point, const double* gradient) {
    double weight = 0.0;
    for (int i = 0; i < point.size; ++i) weight += point.upper[i] - point.lower[i];
    const double tolerance = negligible_weight * std::max(weight, std::numeric_limits<double>::min());
    const auto [lowest, highest] = extremes(point, gradient, tolerance);
    if (highest <= lowest) return middle(lowest, highest);  // flat between them, at zero
    std::vector<int> between;
    double slope = 0.0;  // of the sum, left of all in between
    for (int i = 0; i < point.size; ++i) {
        slope += gradient[i] < lowest ? point.upper[i] - point.beta[i] : point.lower[i] - point.beta[i];
        if (lowest <= gradient[i] && gradient[i] <= highest) between.push_back(i);
    }
    std::stable_sort(between.begin(), between.end(), [&](int a, int b) { return gradient[a] < gradient[b]; });
    std::size_t first = 0, last;
    auto pass = [&](std::size_t k) { return slope += point.upper[between[k]] - point.lower[between[k]]; };
    while (pass(first) < -tolerance && first + 1 < between.size()) ++first;
    for (last = first; last + 1 < between.size() && std::abs(slope) <= tolerance; pass(last)) ++last;
    return 0.5 * (gradient[between[first]] + gradient[between[last]]);
}

// The gradient of a point: computed everywhere, or, if there is a claim, where it matters.
class Recomputed {
public:
    Recomputed(const ClaimedPoint& point, const Recompute& compute)
        : values(point.size), error(point.size), point_(point), compute_(compute) {
        const auto n_support = point.size - std::count(point.beta, point.beta + point.size, 0.0);
        if (point.claim && point.size * n_support > few_entries)
            where_it_matters();
        else
            everywhere();
    }

    std::vector<double> values, error;  // the gradient, and a bound on the error of each entry
    double value_error = 0.0;           // as in Proof, and so is `checked`
    int checked = 0;

private:
    void everywhere() {
        std::vector<int> all(point_.size);
        std::iota(all.begin(), all.end(), 0);
        compute(all);
    }

    // The claim, recomputed on a band of variables and on a random draw of the others. The band holds the variables that are
    // free, or on the wrong side of the level, or on the right one by no more than `doubt` times the largest error found so far.
    // The others add nothing to the gap; to the error of the dual value they add 1/2 |beta_i| times the error of their gradient.
    void where_it_matters() {
        const double *claim = point_.claim, *beta = point_.beta;
        std::copy_n(claim, point_.size, values.data());
        const auto [lowest, highest] = extremes(point_, claim, 0.0);
        const double level = point_.coupled ? middle(lowest, highest) : 0.0;
        std::vector<double> outside(point_.size);  // how far a gradient is on the side of the level where its gap term is zero
        std::vector<int> at;
        std::vector<char> known(point_.size, 0);
        for (int i = 0; i < point_.size; ++i) {
            const bool falls = beta[i] > point_.lower[i], rises = beta[i] < point_.upper[i];
            outside[i] = falls && rises ? -infinity : !falls && !rises ? infinity : rises ? claim[i] - level : level - claim[i];
            if (!(outside[i] > 0.0)) at.push_back(i), known[i] = 1;
        }
        std::mt19937_64 random(digest(claim, point_.size));  // each claim has a draw of its own (certificates.py says why)
        for (int k = 0; k < checked_at_random; ++k)
            if (const int i = static_cast<int>(random() % point_.size); !known[i]) at.push_back(i), known[i] = 1;
        double largest = 0.0;
        while (!at.empty()) {
            compute(at);
            for (int i : at) largest = std::max(largest, std::abs(values[i] - claim[i]));
            at.clear();
            for (int i = 0; i < point_.size; ++i)
                if (!known[i] && !(outside[i] > (safety + 1.0) * largest)) at.push_back(i), known[i] = 1;
        }
        for (int i = 0; i < point_.size; ++i)
            if (!known[i]) error[i] = safety * largest, value_error += 0.5 * safety * largest * std::abs(beta[i]);
    }

    void compute(const std::vector<int>& at) {
        compute_(at, values.data(), error.data());
        checked += static_cast<int>(at.size());
    }

    const ClaimedPoint& point_;
    const Recompute& compute_;
};

// Gradients from the samples alone.
class FromSamples {
public:
    FromSamples(const Kernel& kernel, const Samples<double>& samples, const SumErrors& errors, const ClaimedPoint& point)
        : kernel_(kernel), samples_(samples), errors_(errors), point_(point) {
        for (int i = 0; i < point.size; ++i)
            if (point.beta[i] != 0.0) rows_.push_back(point.members[i]), weights_.push_back(point.beta[i]);
    }

    void operator()(const std::vector<int>& at, double* values, double* error) const {
        std::vector<std::int32_t> members(at.size());
        for (std::size_t k = 0; k < at.size(); ++k) members[k] = point_.members[at[k]];
        Samples<double> support(samples_, rows_.data(), static_cast<std::int64_t>(rows_.size()));
        Samples<double> queries(samples_, members.data(), static_cast<std::int64_t>(members.size()));
        std::vector<double> sums(at.size());
        exact_sums(kernel_, support, queries, weights_.data(), 1, sums.data());
        const double total = weighted(nullptr, 1.0), sizes = weighted(errors_.sizes, 1.0);
        const double products = weighted(errors_.of_products, 0.0), centre = weighted(errors_.of_centre, 0.0);
        for (std::size_t k = 0; k < at.size(); ++k) {
            double& off = error[at[k]];
            off = errors_.unit * sizes * (errors_.sizes ? errors_.sizes[members[k]] : 1.0) + total * errors_.constant;
            if (errors_.of_products) off += products + total * errors_.of_products[members[k]];
            if (errors_.of_centre) off += std::min(centre, total * errors_.of_centre[members[k]]);
            values[at[k]] = sums[k] + point_.linear[at[k]];
        }
    }

private:
    // The sum of |beta_s| times the number of each sample.
    double weighted(const double* numbers, double otherwise) const {
        double sum = 0.0;
        for (std::size_t s = 0; s < rows_.size(); ++s) sum += std::abs(weights_[s]) * (numbers ? numbers[rows_[s]] : otherwise);
        return sum;
    }

    const Kernel& kernel_;
    const Samples<double>& samples_;
    const SumErrors& errors_;
    const ClaimedPoint& point_;
    std::vector<std::int32_t> rows_;  // the samples of the duals that are not zero
    std::vector<double> weights_;     // these duals
};

// The certificate of a point, given its gradient and a bound on the error of each entry.
Proof prove_with(const ClaimedPoint& point, const double* gradient, const double* error) {
    Proof proof;
    proof.checked = point.size;
    if (point.coupled) proof.level = best_level(point, gradient);
    Twofold gap, plain, dual, total;
    for (int i = 0; i < point.size; ++i) {
        const double G = gradient[i], above = G - proof.level, beta = point.beta[i];
        const double fall = beta - point.lower[i], rise = point.upper[i] - beta;
        // the rounding of G - v itself, besides that of the kernel sums
        const double off = error[i] + epsilon * (std::abs(G) + std::abs(proof.level));
        point.terms[i] = std::max(fall * (off + above), rise * (off - above));
        gap.add(point.terms[i]);
        plain.add(std::max(fall * above, -rise * above));
        dual.add(-0.5 * beta * (G + point.linear[i]));
        total.add(beta);
        proof.size += std::abs(beta);
        proof.box_residual = std::max({proof.box_residual, -fall, -rise});
    }
    if (point.coupled) proof.equality_residual = std::abs(total.value());
    proof.dual = dual.value();
    proof.gap = gap.value() + proof.equality_residual * std::abs(proof.level);
    proof.plain = plain.value();
    const auto [lowest, highest] = extremes(point, gradient, 0.0);
    if (!std::isfinite(proof.gap))  // a comparison with NaN says nothing
        proof.violation = infinity;
    else
        proof.violation = std::max(0.0, point.coupled ? highest - lowest : std::max(highest, -lowest));
    return proof;
}

}  // namespace

Proof prove(const ClaimedPoint& point, const Recompute& compute) {
    const Recomputed gradient(point, compute);
    Proof proof = prove_with(point, gradient.values.data(), gradient.error.data());
    proof.value_error = gradient.value_error;
    proof.checked = gradient.checked;
    if (point.gradient) std::copy(gradient.values.begin(), gradient.values.end(), point.gradient);
    return proof;
}

std::vector<Proof> prove_each(const Kernel& kernel, const Samples<double>& samples, const SumErrors& errors,
                              const std::vector<ClaimedPoint>& points) {
    std::vector<Proof> proofs(points.size());
    std::int64_t entries = 0;
    for (const ClaimedPoint& point : points)
        entries += static_cast<std::int64_t>(point.size) * (point.size - std::count(point.beta, point.beta + point.size, 0.0));
    Failure failure;
#pragma omp parallel for schedule(dynamic, 1) num_threads(points.size() > 1 ? threads_for(entries) : 1)
    for (std::size_t i = 0; i < points.size(); ++i)
        failure.guard([&] { proofs[i] = prove(points[i], FromSamples(kernel, samples, errors, points[i])); });
    failure.rethrow();
    return proofs;
}

}  // namespace maxmargin
