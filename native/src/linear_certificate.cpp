#include "maxmargin/linear_certificate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "maxmargin/threads.hpp"
#include "maxmargin/twofold.hpp"

namespace maxmargin {
namespace {

// Groups of rows, each with sums of its own, which together take no more room than a vector over the samples; their number
// depends on the data alone, so that threads change no bit.
constexpr int most_groups = 16;
constexpr double unit_roundoff = 0x1p-53, infinity = std::numeric_limits<double>::infinity();

// Add w.x_i and |x_i|^2 to `score` and `square`, and dual x_i to `products`; return the number of terms.
template <class S>
int visit_row(const DenseView<S>& X, std::int64_t i, const double* w, double dual, double& score, double& square,
              double* products) {
    const S* row = X.values + i * X.row_stride;
    double sum = 0.0, squares = 0.0;
#pragma omp simd reduction(+ : sum, squares)
    for (int k = 0; k < X.n_features; ++k) {
        const double x = row[k];
        sum += x * w[k];
        squares += x * x;
        products[k] += dual * x;
    }
    score += sum, square += squares;
    return X.n_features;
}
template <class S, class I>
int visit_row(const CsrView<S, I>& X, std::int64_t i, const double* w, double dual, double& score, double& square,
              double* products) {
    for (I v = X.starts[i]; v < X.starts[i + 1]; ++v) {
        const double x = X.values[v];
        score += x * w[X.features[v]];
        square += x * x;
        products[X.features[v]] += dual * x;
    }
    return static_cast<int>(X.starts[i + 1] - X.starts[i]);
}

struct Sums {
    Twofold gaps, plain, duals, total, size, reach;
    double violation = 0.0, box = 0.0;
    void add(const Sums& other) {
        gaps.add(other.gaps), plain.add(other.plain), duals.add(other.duals);
        total.add(other.total), size.add(other.size), reach.add(other.reach);
        violation = std::max(violation, other.violation), box = std::max(box, other.box);
    }
};

// One sample, as the statement of the problem has it.
struct Sample {
    double lower, upper, cost, epsilon;
    bool squared;

    Sample(const LinearProblem& problem, std::int64_t i)
        : cost(std::abs(problem.reach[i])), epsilon(problem.epsilon), squared(problem.squared && cost > 0.0) {
        const double end = squared ? infinity : cost;
        lower = problem.two_sided || problem.reach[i] < 0.0 ? -end : 0.0;
        upper = problem.two_sided || problem.reach[i] > 0.0 ? end : 0.0;
        if (cost == 0.0) lower = upper = 0.0;
    }
    // loss(r) + eps |beta| + q/2 beta^2 - beta r, as terms >= 0 in which nothing cancels: of the tube, and of what is beyond it
    double gap(double r, double beta) const {
        const double within = std::clamp(r, -epsilon, epsilon), beyond = r - within;
        const double tube = std::abs(beta) * (epsilon - std::copysign(1.0, beta) * within);
        if (beyond == 0.0) return tube + (squared ? 0.25 * beta * beta / cost : 0.0);
        const double end = beyond > 0.0 ? upper : lower;
        if (!squared) return tube + (end - beta) * beyond;
        if (end == 0.0) return tube - beta * beyond + 0.25 * beta * beta / cost;  // the side without a loss
        const double off = beta - 2.0 * cost * beyond;
        return tube + 0.25 * off * off / cost;
    }
    // The distance of r from the residuals for which beta is optimal.
    double violation(double r, double beta) const {
        const double slope = squared ? 0.5 * beta / cost : 0.0, tube = beta == 0.0 ? epsilon : 0.0;
        const double middle = slope + (beta > 0.0 ? epsilon : beta < 0.0 ? -epsilon : 0.0);
        const double least = beta > lower ? middle - tube : -infinity, most = beta < upper ? middle + tube : infinity;
        return std::max({least - r, r - most, 0.0});
    }
};

}  // namespace

template <class View>
LinearEvidence linear_evidence(const View& X, const LinearProblem& problem, const double* weights, const double* beta,
                               double* terms, double* products) {
    const std::int64_t n = X.n_samples, d = X.n_features;
    const double offset = problem.has_bias() ? problem.constant * weights[d] : 0.0;
    double square_of_weights = 0.0;
    for (std::int64_t k = 0; k < d; ++k) square_of_weights += weights[k] * weights[k];
    const double norm = std::sqrt(square_of_weights);
    const std::int64_t worth_it = std::min(n / rows_of_part, std::max<std::int64_t>(n / (2 * d + 1), 2));
    const int n_groups = static_cast<int>(std::clamp<std::int64_t>(worth_it, 1, most_groups));
    std::vector<Twofold> sums_of_products(n_groups * d);
    std::vector<Sums> sums(n_groups);
    Failure failure;
    const int threads = std::min(n_groups, n_threads());
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int g = 0; g < n_groups; ++g) {
        failure.guard([&] {
            const std::int64_t first = n * g / n_groups, last = n * (g + 1) / n_groups;
            std::vector<double> part(d, 0.0);
            Sums own;  // not in the array: groups that are neighbours there would write to the same lines of the cache
            for (std::int64_t i = first; i < last; ++i) {
                const Sample sample(problem, i);
                const double dual = beta[i];
                double score = 0.0, square = 0.0;
                const int n_terms = visit_row(X, i, weights, dual, score, square, part.data());
                const double length = std::sqrt(square), r = problem.targets[i] - (score + offset);
                const double rounding =
                    unit_roundoff * ((n_terms + 2) * length * norm + 2.0 * std::abs(score + offset) + std::abs(r));
                const double here = sample.gap(r, dual);
                terms[i] = std::max({here, sample.gap(r - rounding, dual), sample.gap(r + rounding, dual)});
                own.gaps.add(terms[i]);
                own.plain.add(here);
                own.duals.add(problem.targets[i] * dual - problem.epsilon * std::abs(dual) -
                              (sample.squared ? 0.25 * dual * dual / sample.cost : 0.0));
                own.total.add(dual);
                own.size.add(std::abs(dual));
                own.reach.add(std::abs(dual) * length);
                own.violation = std::max(own.violation, sample.violation(r, dual));
                own.box = std::max({own.box, sample.lower - dual, dual - sample.upper});
                if ((i - first + 1) % rows_of_part == 0 || i + 1 == last)
                    for (std::int64_t k = 0; k < d; ++k) {
                        sums_of_products[g * d + k].add(part[k]);
                        part[k] = 0.0;
                    }
            }
            sums[g] = own;
        });
    }
    failure.rethrow();
    for (std::int64_t k = 0; k < d; ++k) {
        for (int g = 1; g < n_groups; ++g) sums_of_products[k].add(sums_of_products[g * d + k]);
        products[k] = sums_of_products[k].value();
    }
    for (int g = 1; g < n_groups; ++g) sums[0].add(sums[g]);
    const Sums& all = sums[0];
    return {all.gaps.value(), all.plain.value(), all.duals.value(), all.total.value(),
            all.size.value(), all.reach.value(), all.violation,     all.box};
}

#define MAXMARGIN_EVIDENCE(...)                                                                                              \
    template LinearEvidence linear_evidence(const __VA_ARGS__&, const LinearProblem&, const double*, const double*, double*, \
                                            double*);
MAXMARGIN_EVIDENCE(DenseView<float>)
MAXMARGIN_EVIDENCE(DenseView<double>)
MAXMARGIN_EVIDENCE(CsrView<float, std::int32_t>)
MAXMARGIN_EVIDENCE(CsrView<float, std::int64_t>)
MAXMARGIN_EVIDENCE(CsrView<double, std::int32_t>)
MAXMARGIN_EVIDENCE(CsrView<double, std::int64_t>)

}  // namespace maxmargin
