#include "maxmargin/linear_l1.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "maxmargin/deadline.hpp"

namespace maxmargin {
namespace {

constexpr double enough_decrease = 0.01;  // of what the slope promises
constexpr int most_halvings = 20;
constexpr double least_curvature = 1e-12;
constexpr int steps_of_bias = 20;

template <class View>
class Lasso final : public LinearSolver {
public:
    Lasso(const View& columns, const LinearProblem& problem, double* beta, double* weights)
        : X_(columns), problem_(problem), beta_(beta), weights_(weights), n_(problem.n_samples),
          d_(static_cast<int>(columns.n_samples)), residuals_(n_), active_(d_) {
        for (std::int64_t i = 0; i < n_; ++i)
            residuals_[i] = problem.targets[i] - (problem.has_bias() ? problem.constant * weights[d_] : 0.0);
        for (int j = 0; j < d_; ++j)
            if (weights_[j] != 0.0) each(j, [&](std::int64_t i, double x) { residuals_[i] -= weights_[j] * x; });
        std::iota(active_.begin(), active_.end(), 0);
        n_active_ = d_;
    }

    LinearProgress advance(double gap_tol, std::int64_t max_rounds, double seconds) override {
        const Deadline deadline(seconds);
        LinearProgress progress{};
        while (!progress.done && progress.rounds < max_rounds && !deadline.passed()) {
            progress.passes += static_cast<double>(n_active_) / std::max(d_, 1);
            const double violation = epoch();
            ++progress.rounds;
            if (violation > 0.1 * first_violation_ && n_active_ > 0) continue;  // not worth a look at the gap yet
            measure(progress);
            progress.passes += 1.0;
            progress.done = progress.gap <= gap_tol * std::max(std::abs(progress.primal), std::abs(progress.dual));
            first_violation_ = violation;
            n_active_ = d_;
            threshold_ = infinity;
        }
        if (!progress.done) measure(progress);
        return progress;
    }

private:
    static constexpr double infinity = std::numeric_limits<double>::infinity();

    template <class Visit>
    void each(int j, Visit visit) const {
        for (auto v = X_.starts[j]; v < X_.starts[j + 1]; ++v)
            visit(static_cast<std::int64_t>(X_.features[v]), static_cast<double>(X_.values[v]));
    }
    // The residual on the side where it costs: >= 0 in units of the side.
    double slack(std::int64_t i, double r) const { return std::max(problem_.reach[i] >= 0.0 ? r : -r, 0.0); }
    double dual(std::int64_t i) const { return 2.0 * problem_.reach[i] * slack(i, residuals_[i]); }

    // Visit each active weight once; returns the largest violation of optimality.
    double epoch() {
        double violation = 0.0;
        for (int a = 0; a < n_active_;) {
            const int j = active_[a];
            double slope = 0.0, curvature = 0.0;
            each(j, [&](std::int64_t i, double x) {
                const double s = slack(i, residuals_[i]);
                if (s <= 0.0) return;
                slope -= 2.0 * problem_.reach[i] * s * x;
                curvature += 2.0 * std::abs(problem_.reach[i]) * x * x;
            });
            const double w = weights_[j];
            const double off = w > 0.0   ? std::abs(slope + 1.0)
                               : w < 0.0 ? std::abs(slope - 1.0)
                                         : std::max(std::abs(slope) - 1.0, 0.0);
            if (w == 0.0 && std::abs(slope) < 1.0 - threshold_) {
                std::swap(active_[a], active_[--n_active_]);
                continue;
            }
            ++a;
            violation = std::max(violation, off);
            if (off > 0.0) move(j, slope, std::max(curvature, least_curvature), 1.0);
        }
        if (problem_.has_bias()) move_bias();
        threshold_ = std::min(violation, 1.0);
        if (first_violation_ == infinity) first_violation_ = violation;
        return violation;
    }

    void move(int j, double slope, double curvature, double penalty) {
        const double w = weights_[j];
        const double step = slope + penalty <= curvature * w   ? -(slope + penalty) / curvature
                            : slope - penalty >= curvature * w ? -(slope - penalty) / curvature
                                                               : -w;
        if (step == 0.0) return;
        const double promised = slope * step + penalty * (std::abs(w + step) - std::abs(w));
        double length = 1.0;
        for (int halving = 0; halving < most_halvings; ++halving, length *= 0.5) {
            double change = penalty * (std::abs(w + length * step) - std::abs(w));
            each(j, [&](std::int64_t i, double x) {
                const double before = slack(i, residuals_[i]), after = slack(i, residuals_[i] - length * step * x);
                change += std::abs(problem_.reach[i]) * (after * after - before * before);
            });
            if (change <= enough_decrease * length * promised) break;
        }
        weights_[j] += length * step;
        each(j, [&](std::int64_t i, double x) { residuals_[i] -= length * step * x; });
    }

    // Newton's method for the bias alone: exact where it is free, since the losses are piecewise quadratic.
    void move_bias() {
        const double c = problem_.constant, penalty = problem_.bias == Bias::regularised ? 1.0 : 0.0;
        for (int k = 0; k < steps_of_bias; ++k) {
            double slope = 0.0, curvature = 0.0;
            for (std::int64_t i = 0; i < n_; ++i) {
                const double s = slack(i, residuals_[i]);
                if (s <= 0.0) continue;
                slope -= 2.0 * problem_.reach[i] * s * c;
                curvature += 2.0 * std::abs(problem_.reach[i]) * c * c;
            }
            curvature = std::max(curvature, least_curvature);
            const double b = weights_[d_];
            const double step = slope + penalty <= curvature * b   ? -(slope + penalty) / curvature
                                : slope - penalty >= curvature * b ? -(slope - penalty) / curvature
                                                                   : -b;
            if (std::abs(step) <= 1e-15 * std::abs(b) || step == 0.0) return;
            weights_[d_] += step;
            for (std::int64_t i = 0; i < n_; ++i) residuals_[i] -= step * c;
        }
    }

    void measure(LinearProgress& progress) {
        double norm = 0.0, losses = 0.0, linear = 0.0, square = 0.0, total = 0.0, largest = 0.0;
        for (int j = 0; j < d_; ++j) norm += std::abs(weights_[j]);
        if (problem_.bias == Bias::regularised) norm += std::abs(weights_[d_]);
        for (std::int64_t i = 0; i < n_; ++i) {
            const double s = slack(i, residuals_[i]);
            losses += std::abs(problem_.reach[i]) * s * s;
            beta_[i] = dual(i);
            linear += problem_.targets[i] * beta_[i];
            square += std::abs(problem_.reach[i]) * s * s;  // q/2 beta^2
            total += beta_[i];
        }
        for (int j = 0; j < d_; ++j) {
            double product = 0.0;
            each(j, [&](std::int64_t i, double x) { product += beta_[i] * x; });
            largest = std::max(largest, std::abs(product));
        }
        if (problem_.bias == Bias::regularised) largest = std::max(largest, std::abs(problem_.constant * total));
        double scale = largest > 0.0 ? 1.0 / largest : infinity;
        if (square > 0.0) scale = std::min(scale, 0.5 * linear / square);
        scale = std::isfinite(scale) ? std::max(scale, 0.0) : 1.0;
        for (std::int64_t i = 0; i < n_; ++i) beta_[i] *= scale;
        progress.primal = norm + losses;
        progress.dual = scale * linear - scale * scale * square;
        progress.gap = progress.primal - progress.dual;
    }

    const View X_;
    const LinearProblem problem_;
    double* const beta_;
    double* const weights_;
    const std::int64_t n_;
    const int d_;
    std::vector<double> residuals_;
    std::vector<int> active_;
    int n_active_;
    double threshold_ = infinity, first_violation_ = infinity;
};

}  // namespace

template <class View>
std::unique_ptr<LinearSolver> l1_solver(const View& columns, const LinearProblem& problem, double* beta, double* weights) {
    return std::make_unique<Lasso<View>>(columns, problem, beta, weights);
}

#define MAXMARGIN_L1(...) \
    template std::unique_ptr<LinearSolver> l1_solver(const __VA_ARGS__&, const LinearProblem&, double*, double*);
MAXMARGIN_L1(CsrView<float, std::int32_t>)
MAXMARGIN_L1(CsrView<float, std::int64_t>)
MAXMARGIN_L1(CsrView<double, std::int32_t>)
MAXMARGIN_L1(CsrView<double, std::int64_t>)

}  // namespace maxmargin
