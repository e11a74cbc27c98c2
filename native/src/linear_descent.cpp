#include "maxmargin/linear_descent.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "maxmargin/deadline.hpp"
#include "maxmargin/linear_rows.hpp"

namespace maxmargin {
namespace {

constexpr int rows_ahead = 3;                        // of the row that is read, where the next ones are asked for
constexpr double largest_violation_for_bias = 10.0;  // the bias is moved if the duals have settled that far, relative to its move
constexpr std::int64_t steps_between_looks_at_the_clock = 4096;

// A small generator of random numbers (SplitMix64): the order of the samples, the same on every platform.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t below(std::uint64_t bound) {
        state_ += 0x9e3779b97f4a7c15ULL;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(z ^ (z >> 31)) * bound) >> 64);
    }

private:
    std::uint64_t state_;
};

template <class View>
class Descent final : public LinearSolver {
public:
    Descent(const View& X, const LinearProblem& problem, double* beta, double* weights)
        : X_(X), problem_(problem), beta_(beta), weights_(weights), n_(X.n_samples), d_(X.n_features),
          columns_(d_ + problem.has_bias()), squares_(n_), samples_(n_), random_(1) {
        Parts(n_, stored_values(X), columns_).each([&](int, std::int64_t first, std::int64_t last) {
            for (std::int64_t i = first; i < last; ++i) squares_[i] = square_of_row(X_, i);
        });
        double sum = 0.0, cost = 0.0, size = 0.0;
        for (std::int64_t i = 0; i < n_; ++i) {
            sum += squares_[i];
            cost += std::abs(problem.reach[i]);
            size += std::abs(problem.reach[i] * problem.targets[i]);
        }
        least_penalty_ = cost > 0.0 ? size / (cost * cost) : 0.0;
        penalty_ = std::max(sum / n_, least_penalty_);
        if (penalty_ == 0.0) penalty_ = 1.0;
        const double bias = problem.bias == Bias::free ? weights_[d_] : 0.0;
        std::fill(weights_, weights_ + columns_, 0.0);
        for (std::int64_t i = 0; i < n_; ++i)
            if (beta_[i] != 0.0) add(i, beta_[i]);
        if (problem.bias == Bias::free) weights_[d_] = bias;
        std::iota(samples_.data(), samples_.data() + n_, std::int64_t(0));
        unshrink();
    }

    LinearProgress advance(double gap_tol, std::int64_t max_rounds, double seconds) override {
        const Deadline deadline(seconds);
        LinearProgress progress{};
        while (!progress.done && progress.rounds < max_rounds && !deadline.passed()) {
            const bool all = n_active_ == n_;
            progress.passes += static_cast<double>(n_active_) / std::max<std::int64_t>(n_, 1);
            const bool complete = epoch(deadline);
            ++progress.rounds;
            measure(progress);
            if (!complete) break;
            const double value = std::max(std::abs(progress.primal), std::abs(progress.dual));
            if (progress.gap <= std::max(gap_tol * value, problem_.total > 0.0 ? least_gap_ : 0.0)) {
                progress.done = all;
                if (!all) unshrink();
            } else if (n_active_ == 0) {  // the duals have settled, the bias has not
                unshrink();
            }
        }
        return progress;
    }

private:
    // --- products with the rows, the bias column included --------------------------------------------------------------

    double dot(std::int64_t i) const {
        return dot_row(X_, i, weights_) + (problem_.has_bias() ? problem_.constant * weights_[d_] : 0.0);
    }
    void add(std::int64_t i, double weight) {
        add_row(X_, i, weight, weights_);
        if (problem_.has_bias()) weights_[d_] += weight * problem_.constant * (problem_.bias == Bias::free ? penalty_ : 1.0);
    }
    double square(std::int64_t i) const {
        const double c = problem_.constant * problem_.constant;
        return squares_[i] + (problem_.bias == Bias::free ? penalty_ * c : problem_.has_bias() ? c : 0.0);
    }

    void unshrink() {
        n_active_ = n_;
        threshold_ = std::numeric_limits<double>::infinity();
    }

    // Visit each active sample once, in random order. False if the time ran out before.
    bool epoch(const Deadline& deadline) {
        for (std::int64_t a = 0; a + 1 < n_active_; ++a)
            std::swap(samples_[a], samples_[a + static_cast<std::int64_t>(random_.below(n_active_ - a))]);
        gaps_ = violation_ = 0.0;
        for (std::int64_t next = 0, steps = 0; next < n_active_; ++steps) {
            if (steps % steps_between_looks_at_the_clock == 0 && deadline.passed()) return false;
            if (next + rows_ahead < n_active_) prefetch_row(X_, samples_[next + rows_ahead]);
            if (take_step(samples_[next]))
                ++next;
            else
                std::swap(samples_[next], samples_[--n_active_]);
        }
        threshold_ = violation_ > 0.0 ? violation_ : std::numeric_limits<double>::infinity();
        return true;
    }

    // Move a dual to its best value. False if it is settled instead, and to be left out.
    bool take_step(std::int64_t i) {
        const LinearLoss loss = problem_.loss(i);
        const double beta = beta_[i], r = problem_.targets[i] - dot(i), pull = r - loss.shift * beta;
        gaps_ += loss.gap(r, beta);
        if (is_settled(loss, beta, pull)) return false;
        const double curvature = square(i) + loss.shift;
        if (curvature == 0.0) {  // an empty row without a bias: its loss does not depend on the weights
            beta_[i] = pull > loss.epsilon ? loss.upper : pull < -loss.epsilon ? loss.lower : 0.0;
            return true;
        }
        const double next = loss.best(pull + curvature * beta, curvature), change = next - beta;
        violation_ = std::max(violation_, std::abs(change) * curvature);
        if (change == 0.0) return true;
        beta_[i] = next;
        add(i, change);
        return true;
    }

    // Whether a dual lies at a corner and is pulled there by more than any violation of the last epoch.
    bool is_settled(const LinearLoss& loss, double beta, double pull) const {
        if (beta == loss.lower && pull + (beta < 0.0 ? loss.epsilon : 0.0) < -threshold_) return true;
        if (beta == loss.upper && pull - (beta > 0.0 ? loss.epsilon : 0.0) > threshold_) return true;
        return beta == 0.0 && loss.epsilon > 0.0 && std::abs(pull) < loss.epsilon - threshold_;
    }

    void measure(LinearProgress& progress) {
        double linear = 0.0, total = 0.0, square = 0.0, reach = 0.0;
        for (std::int64_t i = 0; i < n_; ++i) {
            const double beta = beta_[i];
            total += beta;
            reach += std::abs(beta) * std::sqrt(squares_[i]);
            linear += beta * problem_.targets[i] - problem_.epsilon * std::abs(beta) -
                      (problem_.squared && beta != 0.0 ? 0.25 * beta * beta / std::abs(problem_.reach[i]) : 0.0);
        }
        for (int k = 0; k < columns_; ++k) square += (k < d_ ? 1.0 : problem_.ridge()) * weights_[k] * weights_[k];
        progress.dual = linear - 0.5 * square;
        progress.gap = gaps_;
        if (problem_.bias == Bias::free) {
            const double unbalanced = total - problem_.total;
            progress.gap += std::abs(unbalanced * weights_[d_]) + 0.5 * least_penalty_ * unbalanced * unbalanced;
            if (violation_ <= largest_violation_for_bias * std::abs(penalty_ * unbalanced)) weights_[d_] += penalty_ * unbalanced;
        }
        progress.primal = progress.dual + progress.gap;
        // no digits are left where the optimum is zero: a one-class machine around the origin
        least_gap_ = std::numeric_limits<double>::epsilon() * reach * reach;
    }

    const View X_;
    const LinearProblem problem_;
    double* const beta_;
    double* const weights_;
    const std::int64_t n_;
    const int d_, columns_;
    Buffer<double> squares_;
    Buffer<std::int64_t> samples_;  // the active ones come first
    std::int64_t n_active_ = 0;
    Random random_;
    // Of duals that are not balanced. The least one moves the bias by the size of a target if all duals are at the end of their
    // box.
    double penalty_ = 1.0, least_penalty_ = 0.0;
    double least_gap_ = 0.0, threshold_, gaps_ = 0.0, violation_ = 0.0;
};

}  // namespace

template <class View>
std::unique_ptr<LinearSolver> descent_solver(const View& X, const LinearProblem& problem, double* beta, double* weights) {
    return std::make_unique<Descent<View>>(X, problem, beta, weights);
}

#define MAXMARGIN_DESCENT(...) \
    template std::unique_ptr<LinearSolver> descent_solver(const __VA_ARGS__&, const LinearProblem&, double*, double*);
MAXMARGIN_DESCENT(DenseView<float>)
MAXMARGIN_DESCENT(DenseView<double>)
MAXMARGIN_DESCENT(CsrView<float, std::int32_t>)
MAXMARGIN_DESCENT(CsrView<float, std::int64_t>)
MAXMARGIN_DESCENT(CsrView<double, std::int32_t>)
MAXMARGIN_DESCENT(CsrView<double, std::int64_t>)

}  // namespace maxmargin
