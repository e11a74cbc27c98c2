#include "maxmargin/linear_descent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "maxmargin/linear_epochs.hpp"
#include "maxmargin/linear_rows.hpp"

namespace maxmargin {
namespace {

constexpr double largest_violation_for_bias = 10.0;  // the bias is moved if the duals have settled that far, relative to its move
constexpr double samples_of_full_penalty = 1000.0;   // the more samples, the weaker the penalty: see `penalty_`

template <class View>
class Descent final : public EpochSolver<Descent<View>> {
    using Epochs = EpochSolver<Descent<View>>;
    using Epochs::gaps_, Epochs::n_, Epochs::threshold_, Epochs::violation_;
    friend Epochs;

public:
    Descent(const View& X, const LinearProblem& problem, double* beta, double* weights, bool is_block)
        : Epochs(X.n_samples), X_(X), problem_(problem), beta_(beta), weights_(weights), d_(X.n_features),
          columns_(d_ + problem.has_bias()), squares_(n_), is_block_(is_block) {
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
        is_weak_ = !is_block && n_ > samples_of_full_penalty;
        const double share = is_weak_ ? samples_of_full_penalty / static_cast<double>(n_) : 1.0;
        if (problem.bias == Bias::free)
            penalty_ = sum > 0.0 || least_penalty_ > 0.0 ? share * std::max(sum / n_, least_penalty_) : 1.0;
        else if (is_weak_)
            penalty_ = std::min(share * std::max(sum / n_, least_penalty_), 1.0);
        if (is_block) return;  // the weights are those of all blocks
        const double bias = problem.has_bias() ? weights_[d_] : 0.0;
        std::fill(weights_, weights_ + columns_, 0.0);
        for (std::int64_t i = 0; i < n_; ++i)
            if (beta_[i] != 0.0) add(i, beta_[i]);
        if (problem.bias == Bias::free) weights_[d_] = bias;
        if (problem.bias == Bias::regularised) weights_[d_] /= penalty_;
    }

private:
    // --- products with the rows, the bias column included --------------------------------------------------------------

    double dot(std::int64_t i) const {
        return dot_row(X_, i, weights_) + (problem_.has_bias() ? problem_.constant * weights_[d_] : 0.0);
    }
    void add(std::int64_t i, double weight) {
        add_row(X_, i, weight, weights_);
        if (problem_.has_bias()) weights_[d_] += weight * problem_.constant * penalty_;
    }
    double square(std::int64_t i) const {
        return squares_[i] + (problem_.has_bias() ? penalty_ * problem_.constant * problem_.constant : 0.0);
    }

    static constexpr double share_of_gap = 0.0;
    bool is_whole() const { return true; }
    void take_back() {}
    void announce(std::int64_t i) const {
        for (const double* entries : {static_cast<const double*>(beta_), problem_.targets, problem_.reach, squares_.data()})
            __builtin_prefetch(entries + i);
        announce_row(X_, i);
    }
    void prefetch(std::int64_t i) const { prefetch_row(X_, i); }
    // no digits are left where the optimum is zero: a one-class machine around the origin
    double least_gap() const { return problem_.total > 0.0 ? least_gap_ : 0.0; }

    // Move a dual to its best value. False if it is settled instead, and to be left out.
    bool take_step(std::int64_t i) {
        if (bias_step_ != 0.0) weights_[d_] += std::exchange(bias_step_, 0.0);
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
        for (int k = 0; k < d_; ++k) square += weights_[k] * weights_[k];
        progress.gap = gaps_;
        if (problem_.bias == Bias::regularised && !is_weak_) square += weights_[d_] * weights_[d_];
        if (problem_.bias == Bias::regularised && is_weak_) {
            const double wanted = problem_.constant * total, off = wanted - weights_[d_];
            square += wanted * wanted;
            progress.gap += 0.5 * off * off;
            weights_[d_] += off * penalty_ / (1.0 + penalty_);
        }
        progress.dual = linear - 0.5 * square;
        if (problem_.bias == Bias::free) {
            const double unbalanced = total - problem_.total;
            progress.gap += std::abs(unbalanced * weights_[d_]) + 0.5 * least_penalty_ * unbalanced * unbalanced;
            if (is_weak_ || violation_ <= largest_violation_for_bias * std::abs(penalty_ * unbalanced))
                (is_block_ ? weights_[d_] : bias_step_) += penalty_ * unbalanced;
        }
        progress.primal = progress.dual + progress.gap;
        least_gap_ = std::numeric_limits<double>::epsilon() * reach * reach;
    }

    const View X_;
    const LinearProblem problem_;
    double* const beta_;
    double* const weights_;
    const int d_, columns_;
    Buffer<double> squares_;
    // The squared length of the bias column: the penalty of duals that are not balanced, or do not add up to a regularised bias.
    // A full one is the mean |x_i|^2, or the ridge of the bias itself. A weak one couples the samples of a set less, so that a
    // step on one does not undo that on another, and binds all of them together as strongly as 1000 samples are by a full one.
    // The least one moves the bias by the size of a target if all duals are at the end of their box.
    double penalty_ = 1.0, least_penalty_ = 0.0;
    bool is_weak_ = false;
    const bool is_block_;
    double bias_step_ = 0.0;  // of the bias, to be made by the next epoch: the gap that was measured is that without it
    double least_gap_ = 0.0;
};

}  // namespace

template <class View>
std::unique_ptr<LinearSolver> descent_solver(const View& X, const LinearProblem& problem, double* beta, double* weights,
                                             bool is_block) {
    return std::make_unique<Descent<View>>(X, problem, beta, weights, is_block);
}

#define MAXMARGIN_DESCENT(...) \
    template std::unique_ptr<LinearSolver> descent_solver(const __VA_ARGS__&, const LinearProblem&, double*, double*, bool);
MAXMARGIN_DESCENT(DenseView<float>)
MAXMARGIN_DESCENT(DenseView<double>)
MAXMARGIN_DESCENT(CsrView<float, std::int32_t>)
MAXMARGIN_DESCENT(CsrView<float, std::int64_t>)
MAXMARGIN_DESCENT(CsrView<double, std::int32_t>)
MAXMARGIN_DESCENT(CsrView<double, std::int64_t>)

}  // namespace maxmargin
