#include "maxmargin/linear_joint.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "maxmargin/linear_epochs.hpp"
#include "maxmargin/linear_rows.hpp"

namespace maxmargin {
namespace {

constexpr double largest_violation_for_bias = 10.0;  // the biases are moved if the duals have settled that far

// The weights of all classes, as products with rows like them best; `table`, a row for each feature and a column for each class,
// is where the caller wants them.
template <class View>
class JointWeights;

// Dense rows: a vector for each class.
template <class S>
class JointWeights<DenseView<S>> {
public:
    JointWeights(const DenseView<S>& X, int n_classes, double* table)
        : X_(X), n_classes_(n_classes), table_(table), values_(static_cast<std::size_t>(X.n_features) * n_classes, 0.0) {}

    // scores[a] = w_m.x_i for m = classes[a]
    void score(std::int64_t i, const int* classes, int count, double* scores) {
        for (int a = 0; a < count; ++a) scores[a] = dot_row(X_, i, of_class(classes[a]));
    }
    // w_m += changes[a] x_i for m = classes[a]
    void add(std::int64_t i, const int* classes, const double* changes, int count) {
        for (int a = 0; a < count; ++a) add_row(X_, i, changes[a], of_class(classes[a]));
    }
    void store() const {
        for (int k = 0; k < X_.n_features; ++k)
            for (int m = 0; m < n_classes_; ++m)
                table_[static_cast<std::int64_t>(k) * n_classes_ + m] = values_[static_cast<std::int64_t>(m) * X_.n_features + k];
    }

private:
    double* of_class(int m) { return values_.data() + static_cast<std::int64_t>(m) * X_.n_features; }

    const DenseView<S> X_;
    const int n_classes_;
    double* const table_;
    std::vector<double> values_;
};

// Sparse rows: the table itself, so that the weights of a feature share a line of the cache.
template <class S, class I>
class JointWeights<CsrView<S, I>> {
public:
    JointWeights(const CsrView<S, I>& X, int n_classes, double* table)
        : X_(X), n_classes_(n_classes), table_(table), all_(n_classes) {
        std::fill(table, table + static_cast<std::int64_t>(X.n_features) * n_classes, 0.0);
    }
    void score(std::int64_t i, const int* classes, int count, double* scores) {
        if (count == n_classes_) {  // adjacent numbers, which the compiler turns into vectors
            std::fill(all_.begin(), all_.end(), 0.0);
            for (I v = X_.starts[i]; v < X_.starts[i + 1]; ++v) {
                const double x = X_.values[v], *w = of_feature(X_.features[v]);
                for (int m = 0; m < n_classes_; ++m) all_[m] += x * w[m];
            }
            for (int a = 0; a < count; ++a) scores[a] = all_[classes[a]];
        } else {
            std::fill(scores, scores + count, 0.0);
            for (I v = X_.starts[i]; v < X_.starts[i + 1]; ++v) {
                const double x = X_.values[v], *w = of_feature(X_.features[v]);
                for (int a = 0; a < count; ++a) scores[a] += x * w[classes[a]];
            }
        }
    }
    void add(std::int64_t i, const int* classes, const double* changes, int count) {
        for (I v = X_.starts[i]; v < X_.starts[i + 1]; ++v) {
            const double x = X_.values[v];
            double* w = of_feature(X_.features[v]);
            for (int a = 0; a < count; ++a) w[classes[a]] += x * changes[a];
        }
    }
    void store() const {}

private:
    double* of_feature(I k) { return table_ + static_cast<std::int64_t>(k) * n_classes_; }

    const CsrView<S, I> X_;
    const int n_classes_;
    double* const table_;
    std::vector<double> all_;
};

template <class View>
class JointDescent final : public EpochSolver<JointDescent<View>> {
    using Epochs = EpochSolver<JointDescent<View>>;
    using Epochs::gaps_, Epochs::n_, Epochs::violation_;
    friend Epochs;

public:
    JointDescent(const View& X, const JointLinearProblem& problem, double* shares, double* weights)
        : Epochs(X.n_samples), X_(X), problem_(problem), shares_(shares), table_(weights), classes_(problem.n_classes),
          biases_(weights + static_cast<std::int64_t>(X.n_features) * classes_), weights_(X, classes_, weights), squares_(n_),
          active_(n_ * classes_), n_active_(n_), scores_(classes_), best_(classes_), moved_(classes_), changes_(classes_) {
        take_back();
        double sum = 0.0, cost = 0.0;
        for (std::int64_t i = 0; i < n_; ++i) {
            squares_[i] = square_of_row(X_, i);
            sum += squares_[i];
            cost += problem.costs[i];
        }
        penalty_ = std::max(sum / n_, cost > 0.0 ? 1.0 / cost : 1.0);
        std::vector<double> biases(problem.has_bias() ? classes_ : 0);
        std::copy(biases_, biases_ + biases.size(), biases.begin());
        std::fill(biases_, biases_ + biases.size(), 0.0);
        for (std::int64_t i = 0; i < n_; ++i) {
            n_moved_ = 0;
            for (int m = 0; m < classes_; ++m)
                move(m, (m == problem.labels[i] ? problem.costs[i] : 0.0) - shares_[i * classes_ + m]);
            add(i);
        }
        if (problem.bias == Bias::free) std::copy(biases.begin(), biases.end(), biases_);
        weights_.store();
    }

private:
    // --- products with the rows, the bias column included --------------------------------------------------------------

    double length_of_bias() const { return problem_.bias == Bias::free ? penalty_ : problem_.has_bias() ? 1.0 : 0.0; }
    // G_mi of the active classes, in their order
    void score(std::int64_t i, const int* active, int count) {
        weights_.score(i, active, count, scores_.data());
        for (int a = 0; a < count; ++a)
            scores_[a] +=
                (active[a] != problem_.labels[i]) + (problem_.has_bias() ? problem_.constant * biases_[active[a]] : 0.0);
    }
    // Note a change of B_mi, which `add` brings to the weights.
    void move(int m, double change) {
        if (change == 0.0) return;
        moved_[n_moved_] = m;
        changes_[n_moved_++] = change;
    }
    void add(std::int64_t i) {
        weights_.add(i, moved_.data(), changes_.data(), n_moved_);
        if (problem_.has_bias())
            for (int a = 0; a < n_moved_; ++a) biases_[moved_[a]] += changes_[a] * problem_.constant * length_of_bias();
    }

    void announce(std::int64_t i) const {
        __builtin_prefetch(shares_ + i * classes_);
        announce_row(X_, i);
    }
    void prefetch(std::int64_t i) const { prefetch_row(X_, i); }
    static constexpr double share_of_gap = 0.1;
    double least_gap() const { return 0.0; }
    bool is_whole() const { return is_whole_; }
    void take_back() {
        is_whole_ = true;
        for (std::int64_t i = 0; i < n_; ++i) {
            n_active_[i] = classes_;
            std::iota(active_.data() + i * classes_, active_.data() + (i + 1) * classes_, 0);
        }
    }

    // Move the shares of a sample to their best values. False if they are settled instead.
    bool take_step(std::int64_t i) {
        double* own = shares_ + i * classes_;
        int *active = active_.data() + i * classes_, &count = n_active_[i];
        const double cost = problem_.costs[i];
        if (cost == 0.0) return false;
        score(i, active, count);
        double highest = -std::numeric_limits<double>::infinity(), lowest = -highest;
        for (int a = 0; a < count; ++a) {
            highest = std::max(highest, scores_[a]);
            if (own[active[a]] > 0.0) lowest = std::min(lowest, scores_[a]);
        }
        for (int a = 0; a < count; ++a) gaps_ += own[active[a]] * (highest - scores_[a]);
        violation_ = std::max(violation_, highest - lowest);
        leave_out(own, active, count, lowest);
        if (count == 1) return false;
        if (highest == lowest) return true;
        const double curvature = squares_[i] + problem_.constant * problem_.constant * length_of_bias();
        if (curvature == 0.0) {  // an empty row without a bias: its loss does not depend on the weights
            std::fill(own, own + classes_, 0.0);
            own[active[std::max_element(scores_.begin(), scores_.begin() + count) - scores_.begin()]] = cost;
            return true;
        }
        for (int a = 0; a < count; ++a) best_[a] = own[active[a]] + scores_[a] / curvature;
        project(cost, count);
        n_moved_ = 0;
        for (int a = 0; a < count; ++a) {
            move(active[a], own[active[a]] - best_[a]);
            own[active[a]] = best_[a];
        }
        add(i);
        return true;
    }

    // Leave out the classes without a share that are below all those with one.
    void leave_out(const double* own, int* active, int& count, double lowest) {
        for (int a = 0; a < count;) {
            if (own[active[a]] > 0.0 || scores_[a] >= lowest) {
                ++a;
                continue;
            }
            --count;
            std::swap(active[a], active[count]);
            std::swap(scores_[a], scores_[count]);
            is_whole_ = false;
        }
    }

    // best_ <- its projection onto the simplex of size `cost`: max(best_ - level, 0), with the level at which they add up to it.
    // The level rises as entries below it are left out (Michelot 1986).
    void project(double cost, int size) {
        double level = -std::numeric_limits<double>::infinity();
        for (int count = size + 1;;) {
            double sum = 0.0;
            int above = 0;
            for (int a = 0; a < size; ++a)
                if (best_[a] > level) {
                    sum += best_[a];
                    ++above;
                }
            if (above >= count || above == 0) break;  // rounding may lower the level, and let an entry back in
            count = above;
            level = (sum - cost) / above;
            if (above == 1) break;
        }
        double left = cost;
        int largest = 0;
        for (int a = 0; a < size; ++a) {
            best_[a] = std::max(best_[a] - level, 0.0);
            left -= best_[a];
            if (best_[a] > best_[largest]) largest = a;
        }
        best_[largest] = std::max(best_[largest] + left, 0.0);  // the rounding error of the sum
    }

    void measure(LinearProgress& progress) {
        double linear = 0.0, square = 0.0;
        for (std::int64_t i = 0; i < n_; ++i) linear += problem_.costs[i] - shares_[i * classes_ + problem_.labels[i]];
        weights_.store();
        const std::int64_t size = biases_ - table_ + (problem_.bias == Bias::regularised ? classes_ : 0);
        for (std::int64_t k = 0; k < size; ++k) square += table_[k] * table_[k];
        progress.dual = linear - 0.5 * square;
        progress.gap = gaps_;
        if (problem_.bias == Bias::free) move_biases(progress);
        progress.primal = progress.dual + progress.gap;
    }

    // The multipliers of sum_i B_mi = 0. What is out of balance has to find other classes, at a price of about one each.
    void move_biases(LinearProgress& progress) {
        std::vector<double> unbalanced(classes_, 0.0);
        for (std::int64_t i = 0; i < n_; ++i) {
            unbalanced[problem_.labels[i]] += problem_.costs[i];
            for (int m = 0; m < classes_; ++m) unbalanced[m] -= shares_[i * classes_ + m];
        }
        double largest = 0.0;
        for (int m = 0; m < classes_; ++m) {
            progress.gap += std::abs(unbalanced[m]) * (1.0 + std::abs(biases_[m]));
            largest = std::max(largest, std::abs(unbalanced[m]));
        }
        if (violation_ > largest_violation_for_bias * penalty_ * largest) return;
        for (int m = 0; m < classes_; ++m) biases_[m] += penalty_ * unbalanced[m];
    }

    const View X_;
    const JointLinearProblem problem_;
    double* const shares_;
    double* const table_;
    const int classes_;
    double* const biases_;
    JointWeights<View> weights_;
    Buffer<double> squares_;
    Buffer<int> active_;    // the active classes of each sample come first
    Buffer<int> n_active_;  // how many they are
    bool is_whole_ = true;
    std::vector<double> scores_, best_;
    std::vector<int> moved_;       // the classes whose shares a step moves
    std::vector<double> changes_;  // and by how much
    int n_moved_ = 0;
    double penalty_ = 1.0;  // of duals that are not balanced
};

}  // namespace

template <class View>
std::unique_ptr<LinearSolver> joint_solver(const View& X, const JointLinearProblem& problem, double* shares, double* weights) {
    return std::make_unique<JointDescent<View>>(X, problem, shares, weights);
}

#define MAXMARGIN_JOINT(...) \
    template std::unique_ptr<LinearSolver> joint_solver(const __VA_ARGS__&, const JointLinearProblem&, double*, double*);
MAXMARGIN_JOINT(DenseView<float>)
MAXMARGIN_JOINT(DenseView<double>)
MAXMARGIN_JOINT(CsrView<float, std::int32_t>)
MAXMARGIN_JOINT(CsrView<float, std::int64_t>)
MAXMARGIN_JOINT(CsrView<double, std::int32_t>)
MAXMARGIN_JOINT(CsrView<double, std::int64_t>)

}  // namespace maxmargin
