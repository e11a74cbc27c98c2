#include "maxmargin/linear_newton.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "maxmargin/blas.hpp"
#include "maxmargin/deadline.hpp"
#include "maxmargin/linear_rows.hpp"

namespace maxmargin {
namespace {

constexpr double first_width = 1.0;   // of rounded corners, in units of the mean distance of a target from zero
constexpr double width_factor = 0.4;  // by which it shrinks with each anchor
constexpr double smooth_share = 0.6;  // share of the gap that may be left to the smooth problem when its anchor is moved
constexpr double least_width = 1e-9;  // relative to the first
constexpr double fresh_gap = 1e-9;  // relative: below it sums are computed anew, as many rounded changes have been added to them
constexpr double line_search_slope = 0.1;  // a step is accepted when the slope has fallen to this share
constexpr std::int64_t subset_stride = 8, least_subset = 512;
constexpr std::int64_t rows_per_column_of_subset = 2;
constexpr double gap_of_subset = 1e-2;
constexpr std::int64_t most_rounds_of_subset = 100;
constexpr std::int64_t most_rounds = 1000;  // ten times what any set took: an optimum of zero has no relative gap to reach
constexpr int most_line_searches = 60;
constexpr std::int64_t rows_for_centre = 256;
constexpr double far_from_zero = 30.0;  // a column whose mean is so many standard deviations from zero
constexpr int most_columns_of_matrix = 1200;
constexpr int rows_of_tile = 256, columns_of_block = 128;
constexpr std::int64_t entries_of_partial_matrices = std::int64_t(1) << 21;
constexpr double products_per_entry = 16.0;  // of a partial matrix, which has to be cleared and added to the others
constexpr std::int64_t samples_at_once = 512;
constexpr int usual_conjugate_steps = 30;
// multiplications of a symmetric matrix product, all entries counted, in the time of one that reads its factor from memory
constexpr double gemm_speed = 16.0;

template <class S>
void add_squares(const DenseView<S>& X, std::int64_t i, double weight, double* out) {
    const S* row = X.values + i * X.row_stride;
    for (int k = 0; k < X.n_features; ++k) out[k] += weight * row[k] * row[k];
}
template <class S, class I>
void add_squares(const CsrView<S, I>& X, std::int64_t i, double weight, double* out) {
    for (I v = X.starts[i]; v < X.starts[i + 1]; ++v) out[X.features[v]] += weight * X.values[v] * X.values[v];
}

template <class View>
class Newton final : public LinearSolver {
public:
    // Sample i is row i * stride.
    Newton(const View& X, const LinearProblem& problem, double* beta, double* weights, std::int64_t stride = 1)
        : X_(X), problem_(problem), beta_(beta), weights_(weights), stride_(stride), n_(problem.n_samples), d_(X.n_features),
          columns_(d_ + problem.has_bias()), parts_(n_, stored_values(X) / stride, columns_), scores_(n_),
          anchor_(problem.squared ? 0 : n_), bends_(n_), in_matrix_(keeps_matrix() ? n_ : 0), products_(columns_),
          gradient_(columns_), step_(columns_), partial_(std::size_t(parts_.size()) * columns_), lists_(parts_.size()) {
        double size = 0.0, cost = 0.0;
        for (std::int64_t i = 0; i < n_; ++i) {
            size += std::abs(problem.reach[i] * problem.targets[i]);
            cost += std::abs(problem.reach[i]);
        }
        if (size == 0.0)  // a one-class machine: the size of its scores, if all duals have the same share of the total
            for (std::int64_t i = 0; i < n_; ++i)
                size += problem.total * std::abs(problem.reach[i]) * square_of_row(X_, i * stride);
        first_width_ = width_ = first_width * (size > 0.0 ? size / cost : 1.0);
        total_cost_ = cost;
        const bool cold = std::all_of(beta_, beta_ + n_, [](double b) { return b == 0.0; });
        needs_start_ = cold && n_ >= rows_per_column_of_subset * subset_stride * columns_ && n_ >= subset_stride * least_subset;
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(anchor_.size()); ++i)
            anchor_[i] = cold && !problem.two_sided ? 0.5 * problem.reach[i] : beta_[i];
        std::fill(in_matrix_.data(), in_matrix_.data() + in_matrix_.size(), char(0));
        std::fill(scores_.data(), scores_.data() + n_, 0.0);
        if (std::any_of(weights_, weights_ + columns_, [](double w) { return w != 0.0; })) multiply(weights_, scores_.data());
        transpose(beta_, products_.data());
        if (problem.bias == Bias::free && keeps_matrix()) find_centre();
    }

    LinearProgress advance(double gap_tol, std::int64_t max_rounds, double seconds) override {
        const Deadline deadline(seconds);
        LinearProgress progress{};
        moves_ = Buffer<double>(n_);
        if (std::exchange(needs_start_, false)) start_from_subset(gap_tol, seconds);
        for (std::int64_t round = 0;; ++round) {
            SumsOfLosses sums = take_duals();
            take_gradient();
            double smooth = measure(sums, progress);
            if (progress.gap <= fresh_gap * std::max(std::abs(progress.primal), std::abs(progress.dual))) {
                multiply(weights_, scores_.data());
                sums = take_duals();
                transpose(beta_, products_.data());
                passes_ += 1.0;
                take_gradient();
                smooth = measure(sums, progress);
            }
            progress.done = progress.gap <= gap_tol * std::max(std::abs(progress.primal), std::abs(progress.dual));
            if (progress.done || progress.stalled || round == max_rounds || deadline.passed()) break;
            const bool at_its_minimum = smooth <= smooth_share * sums.gaps && width_ > least_width * first_width_;
            const bool moves_anchor = !problem_.squared && at_its_minimum;
            if (moves_anchor) {
                std::copy(beta_, beta_ + n_, anchor_.data());
                width_ *= width_factor;
                take_duals();
                take_gradient();
            }
            find_step(smooth, progress.gap);
            multiply(step_.data(), moves_.data());
            const double length = search_line();
            progress.stalled = (length == 0.0 && !moves_anchor) || ++rounds_ >= most_rounds;
            for (int k = 0; k < columns_; ++k) weights_[k] += length * step_[k];
            parts_.each([&](int, std::int64_t first, std::int64_t last) {
                for (std::int64_t i = first; i < last; ++i) scores_[i] += length * moves_[i];
            });
            ++progress.rounds;
        }
        progress.passes = passes_;
        passes_ = 0.0;
        moves_ = Buffer<double>();  // a certificate, which comes next, needs the room
        std::fill(lists_.begin(), lists_.end(), Lists());
        return progress;
    }

private:
    // Primal value, dual value and gap at the present weights and duals; returns the part of the gap that belongs to the smooth
    // problem.
    double measure(const SumsOfLosses& sums, LinearProgress& progress) const {
        const double smooth = error_of_smooth_problem(sums);
        progress.primal = 0.5 * square_of(weights_) + problem_.total * bias_score() + sums.losses;
        double square = problem_.ridge() * products_[columns_ - 1] * products_[columns_ - 1];
        for (int k = 0; k < d_; ++k) square += (weights_[k] - centred_gradient(k)) * (weights_[k] - centred_gradient(k));
        progress.dual = sums.duals - 0.5 * square;  // of duals that are balanced
        progress.gap = smooth + sums.gaps;
        return smooth;
    }

    // Solve the problem of every eighth sample, which costs an eighth, and go on from its weights and its width.
    void start_from_subset(double gap_tol, double seconds) {
        const std::int64_t n = (n_ + subset_stride - 1) / subset_stride;
        std::vector<double> targets(n), reach(n), beta(n, 0.0);
        for (std::int64_t i = 0; i < n; ++i) {
            targets[i] = problem_.targets[i * subset_stride];
            reach[i] = problem_.reach[i * subset_stride] * subset_stride;
        }
        LinearProblem subset = problem_;
        subset.targets = targets.data(), subset.reach = reach.data(), subset.n_samples = n;
        Newton coarse(X_, subset, beta.data(), weights_, stride_ * subset_stride);
        const LinearProgress progress = coarse.advance(std::max(gap_tol, gap_of_subset), most_rounds_of_subset, seconds);
        passes_ += progress.passes / subset_stride;
        const double spread =
            first_width_ * std::sqrt(static_cast<double>(columns_) / n);  // of weights that were found from n samples
        width_ = std::min(first_width_, std::max(coarse.width_, spread));
        multiply(weights_, scores_.data());
    }

    // A column such as 2015 +- 5 is nearly a multiple of the bias column, and the equations of a step are nearly singular. In
    // terms of x - centre they are not, and where the bias is free, that is the same machine with another bias: b + centre'w /
    // constant. Any point near the rows will do, so that some of the rows tell it.
    void find_centre() {
        if constexpr (!sparse) {
            const std::int64_t step = std::max<std::int64_t>(1, n_ / rows_for_centre), count = (n_ + step - 1) / step;
            std::vector<double> mean(d_, 0.0), square(d_, 0.0);
            for (std::int64_t i = 0; i < n_; i += step) add_row(X_, i * stride_, 1.0 / static_cast<double>(count), mean.data());
            for (std::int64_t i = 0; i < n_; i += step) {
                const auto* row = X_.values + i * stride_ * X_.row_stride;
                for (int k = 0; k < d_; ++k) square[k] += (row[k] - mean[k]) * (row[k] - mean[k]) / static_cast<double>(count);
            }
            for (int k = 0; k < d_; ++k)
                if (mean[k] * mean[k] > far_from_zero * far_from_zero * square[k]) centre_ = mean;
        }
    }
    double along_centre(const double* w) const {
        double sum = 0.0;
        for (std::size_t k = 0; k < centre_.size(); ++k) sum += centre_[k] * w[k];
        return sum;
    }
    // the gradient by weight k if the bias moves along, so that the score of the centre stays
    double centred_gradient(int k) const {
        return centre_.empty() || k == d_ ? gradient_[k] : gradient_[k] - centre_[k] / problem_.constant * gradient_[d_];
    }

    // --- products with the rows, the bias column included --------------------------------------------------------------

    double dot(std::int64_t i, const double* w) const {
        return dot_row(X_, i * stride_, w) + (problem_.has_bias() ? problem_.constant * w[d_] : 0.0);
    }
    void add(std::int64_t i, double weight, double* out) const {
        add_row(X_, i * stride_, weight, out);
        if (problem_.has_bias()) out[d_] += weight * problem_.constant;
    }
    void multiply(const double* w, double* out) {
        parts_.each([&](int, std::int64_t first, std::int64_t last) {
            for (std::int64_t i = first; i < last; ++i) out[i] = dot(i, w);
        });
        passes_ += 1.0;
    }
    void transpose(const double* weights_of_rows, double* out) {
        sum_rows(out, [&](std::int64_t first, std::int64_t last, double* sums) {
            for (std::int64_t i = first; i < last; ++i)
                if (weights_of_rows[i] != 0.0) add(i, weights_of_rows[i], sums);
        });
    }
    // out = the sum over the parts of what `visit(first, last, sums)` adds to zeros
    template <class Visit>
    void sum_rows(double* out, Visit visit) {
        parts_.each([&](int p, std::int64_t first, std::int64_t last) {
            double* sums = partial_.data() + std::size_t(p) * columns_;
            std::fill(sums, sums + columns_, 0.0);
            visit(first, last, sums);
        });
        add_partial_sums(out);
    }
    void add_partial_sums(double* out) const {
        const int threads = threads_for(std::int64_t(parts_.size()) * columns_);
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int k = 0; k < columns_; ++k) {
            double sum = 0.0;
            for (int p = 0; p < parts_.size(); ++p) sum += partial_[std::size_t(p) * columns_ + k];
            out[k] = sum;
        }
    }

    // --- the problem at the present scores -----------------------------------------------------------------------------

    double bias_score() const { return problem_.has_bias() ? problem_.constant * weights_[d_] : 0.0; }

    // |w|^2, and the square of the bias if it is regularised
    double square_of(const double* w) const {
        double sum = 0.0;
        for (int k = 0; k < columns_; ++k) sum += (k < d_ ? 1.0 : problem_.ridge()) * w[k] * w[k];
        return sum;
    }
    // k_i = 1 / h_i is this times the cost of a sample
    double scale() const { return problem_.squared ? 2.0 : 1.0 / width_; }
    RoundedLosses losses() const {
        return {problem_.targets,   problem_.reach,  problem_.squared ? nullptr : anchor_.data(),
                scores_.data(),     scale(),         problem_.epsilon,
                problem_.two_sided, problem_.squared};
    }

    // The duals that belong to the scores, which of them bend, and the products X' beta, to which only changes are added.
    SumsOfLosses take_duals() {
        const RoundedLosses of = losses();
        std::vector<SumsOfLosses> sums(parts_.size());
        std::vector<std::int64_t> changed(parts_.size());
        parts_.each([&](int p, std::int64_t first, std::int64_t last) {
            double* products = partial_.data() + std::size_t(p) * columns_;
            std::fill(products, products + columns_, 0.0);
            double betas[samples_at_once];
            for (std::int64_t start = first; start < last; start += samples_at_once) {
                const std::int64_t end = std::min(start + samples_at_once, last);
                sums[p].add(loops<double>().losses.duals(of, start, end, betas, bends_.data() + start));
                for (std::int64_t i = start; i < end; ++i) {
                    const double change = betas[i - start] - beta_[i];
                    if (change == 0.0) continue;
                    add(i, change, products);
                    beta_[i] = betas[i - start];
                    ++changed[p];
                }
            }
        });
        SumsOfLosses all;
        for (const SumsOfLosses& own : sums) all.add(own);
        add_partial_sums(step_.data());  // which is free at this time
        for (int k = 0; k < columns_; ++k) products_[k] += step_[k];
        passes_ += share(std::accumulate(changed.begin(), changed.end(), std::int64_t(0)));
        return all;
    }
    double share(std::int64_t rows) const {
        return static_cast<double>(rows) / static_cast<double>(std::max<std::int64_t>(n_, 1));
    }

    void take_gradient() {
        for (int k = 0; k < d_; ++k) gradient_[k] = weights_[k] - products_[k];
        if (problem_.has_bias())
            gradient_[d_] = problem_.ridge() * weights_[d_] + problem_.total * problem_.constant - products_[d_];
    }

    // The part of the gap that vanishes at the minimum of the smooth problem. Duals that are not balanced count also where the
    // bias is zero: by what a step of the bias alone would gain if all duals bent.
    double error_of_smooth_problem(const SumsOfLosses& sums) const {
        double square = 0.0;
        for (int k = 0; k < d_; ++k) square += centred_gradient(k) * centred_gradient(k);
        if (problem_.bias == Bias::regularised) square += gradient_[d_] * gradient_[d_];
        const double excess = problem_.bias == Bias::free ? std::abs(problem_.total - sums.total) : 0.0;
        return 0.5 * square + excess * (std::abs(bias_score() + along_centre(weights_)) + 0.5 * excess / (total_cost_ * scale()));
    }

    // --- the step ------------------------------------------------------------------------------------------------------

    // A ridge on the bias: where no dual bends and the bias is free, the matrix would be singular. The step then is as long as if
    // all did.
    double least_ridge() const {
        return (n_band_ == 0 ? 1.0 : 1e-12) * total_cost_ * problem_.constant * problem_.constant * scale();
    }

    void find_step(double smooth, double gap) {
        list_rows();
        const double length = row_length();
        const double by_matrix = static_cast<double>(columns_) * columns_ * columns_ / (3.0 * gemm_speed) +
                                 (sparse ? length * length : static_cast<double>(d_) * d_ / gemm_speed) *
                                     static_cast<double>(std::min(n_band_, n_entering_ + n_leaving_));
        const double by_rows = 2.0 * usual_conjugate_steps * length * static_cast<double>(n_band_);
        if (keeps_matrix() && (by_matrix <= by_rows || !centre_.empty()) && solve_by_matrix()) return;
        solve_by_rows(smooth, gap);
    }

    double row_length() const {
        return static_cast<double>(stored_values(X_)) / static_cast<double>(std::max<std::int64_t>(X_.n_samples, 1));
    }
    bool keeps_matrix() const { return columns_ <= most_columns_of_matrix; }
    static constexpr bool sparse = !requires(View view) { view.row_stride; };

    // The rows whose duals bend (the band), and, if there is a matrix, those that enter or leave it.
    void list_rows() {
        parts_.each([&](int p, std::int64_t first, std::int64_t last) {
            Lists& lists = lists_[p];
            lists.band.clear(), lists.entering.clear(), lists.leaving.clear();
            lists.band.reserve(std::count(bends_.data() + first, bends_.data() + last, char(1)));
            for (std::int64_t i = first; i < last; ++i) {
                if (bends_[i]) lists.band.push_back(i);
                if (!keeps_matrix()) continue;
                if (bends_[i] && !in_matrix_[i]) lists.entering.push_back(i);
                if (!bends_[i] && in_matrix_[i]) lists.leaving.push_back(i);
            }
        });
        n_band_ = n_entering_ = n_leaving_ = 0;
        for (const Lists& lists : lists_) {
            n_band_ += static_cast<std::int64_t>(lists.band.size());
            n_entering_ += static_cast<std::int64_t>(lists.entering.size());
            n_leaving_ += static_cast<std::int64_t>(lists.leaving.size());
        }
    }

    bool solve_by_matrix() {
        update_matrix();
        const std::size_t size = std::size_t(columns_) * columns_;
        factor_.resize(size);
        for (std::size_t at = 0; at < size; ++at) factor_[at] = scale() * matrix_[at];
        if constexpr (sparse)  // rows that are not sorted have some products in the other triangle
            for (std::size_t i = 0, c = columns_; i < c; ++i)
                for (std::size_t j = i + 1; j < c; ++j) factor_[i * c + j] += scale() * matrix_[j * c + i];
        for (int k = 0; k < d_; ++k) factor_[std::size_t(k) * columns_ + k] += 1.0;
        if (problem_.has_bias()) factor_[size - 1] += problem_.ridge() + least_ridge();
        if (!blas::cholesky(columns_, factor_.data(), columns_)) return false;
        for (int k = 0; k < columns_; ++k) step_[k] = -centred_gradient(k);
        blas::cholesky_solve(columns_, 1, factor_.data(), step_.data());
        if (!centre_.empty()) step_[d_] -= along_centre(step_.data()) / problem_.constant;
        return true;
    }

    // matrix = sum over the band of C_i x_i x_i' (less the centre, if there is one), its lower triangle by columns (the upper by
    // rows).
    void update_matrix() {
        const bool anew = matrix_.empty() || n_band_ <= n_entering_ + n_leaving_;
        if (anew) matrix_.assign(std::size_t(columns_) * columns_, 0.0);
        std::vector<std::int64_t> entering, leaving;
        for (const Lists& lists : lists_) {
            const auto& added = anew ? lists.band : lists.entering;
            entering.insert(entering.end(), added.begin(), added.end());
            if (!anew) leaving.insert(leaving.end(), lists.leaving.begin(), lists.leaving.end());
        }
        std::copy(bends_.data(), bends_.data() + n_, in_matrix_.data());
        passes_ += share(static_cast<std::int64_t>(entering.size() + leaving.size()));
        add_outer_products(entering, 1.0);
        add_outer_products(leaving, -1.0);
    }

    // matrix += sign sum of C_i x_i x_i' over some rows
    void add_outer_products(const std::vector<std::int64_t>& rows, double sign) {
        const std::size_t size = std::size_t(columns_) * columns_;
        const std::int64_t n_rows = static_cast<std::int64_t>(rows.size());
        // Groups of rows have sums of their own if they are worth it: a power of two, by the data alone.
        const double products = static_cast<double>(n_rows) * (sparse ? row_length() * row_length() : double(size));
        std::int64_t groups = 1;
        while (2 * groups * std::int64_t(size) <= entries_of_partial_matrices && groups < Parts::most &&
               n_rows / (2 * groups) >= rows_of_tile && products / (2 * groups) >= products_per_entry * double(size))
            groups *= 2;
        if (groups == 1) return outer_products(rows.data(), n_rows, sign, matrix_.data());
        std::vector<double> partial(groups * size, 0.0);
        Failure failure;
        const int threads = static_cast<int>(std::min<std::int64_t>(groups, n_threads()));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (std::int64_t g = 0; g < groups; ++g)
            failure.guard([&] {
                outer_products(rows.data() + n_rows * g / groups, n_rows * (g + 1) / groups - n_rows * g / groups, sign,
                               partial.data() + g * size);
            });
        failure.rethrow();
        for (std::int64_t g = 0; g < groups; ++g)
            for (std::size_t at = 0; at < size; ++at) matrix_[at] += partial[g * size + at];
    }

    void outer_products(const std::int64_t* rows, std::int64_t n_rows, double sign, double* matrix) const {
        if constexpr (sparse) {
            for (std::int64_t a = 0; a < n_rows; ++a) {
                const std::int64_t i = rows[a], first = X_.starts[i * stride_], last = X_.starts[i * stride_ + 1];
                const double cost = sign * std::abs(problem_.reach[i]);
                for (std::int64_t v = first; v < last; ++v) {
                    const double x = cost * X_.values[v];
                    double* row = matrix + std::size_t(X_.features[v]) * columns_;
                    for (std::int64_t u = v; u < last; ++u) row[X_.features[u]] += x * X_.values[u];
                    if (problem_.has_bias()) row[d_] += x * problem_.constant;
                }
                if (problem_.has_bias())
                    matrix[std::size_t(columns_) * columns_ - 1] += cost * problem_.constant * problem_.constant;
            }
        } else {
            std::vector<double> tile(std::size_t(columns_) * rows_of_tile);
            for (std::int64_t start = 0; start < n_rows; start += rows_of_tile) {
                const int height = static_cast<int>(std::min<std::int64_t>(rows_of_tile, n_rows - start));
                for (int a = 0; a < height; ++a) {  // column-major: columns_ x height
                    const std::int64_t i = rows[start + a];
                    const double root = std::sqrt(std::abs(problem_.reach[i]));
                    double* column = tile.data() + std::size_t(a) * columns_;
                    const auto* row = X_.values + i * stride_ * X_.row_stride;
                    if (centre_.empty())
                        for (int k = 0; k < d_; ++k) column[k] = root * row[k];
                    else
                        for (int k = 0; k < d_; ++k) column[k] = root * (row[k] - centre_[k]);
                    if (problem_.has_bias()) column[d_] = root * problem_.constant;
                }
                char n = 'N', t = 'T';
                double one = 1.0;
                int lead = columns_, depth = height;
                for (int first = 0; first < columns_; first += columns_of_block) {  // the lower triangle, in blocks of columns
                    int across = std::min(columns_of_block, columns_ - first), down = columns_ - first;
                    blas::routines.dgemm(&n, &t, &down, &across, &depth, &sign, tile.data() + first, &lead, tile.data() + first,
                                         &lead, &one, matrix + std::size_t(first) * columns_ + first, &lead);
                }
            }
        }
    }

    // Conjugate gradients with the diagonal as preconditioner, until the residual is small enough to make the error of the smooth
    // problem a small share of the gap.
    void solve_by_rows(double smooth, double gap) {
        std::vector<double> diagonal(columns_), residual(columns_), direction(columns_), product(columns_);
        sum_band(diagonal.data(), [&](std::int64_t i, double weight, double* sums) {
            add_squares(X_, i * stride_, weight, sums);
            if (problem_.has_bias()) sums[d_] += weight * problem_.constant * problem_.constant;
        });
        for (int k = 0; k < d_; ++k) diagonal[k] += 1.0;
        if (problem_.has_bias()) diagonal[d_] += problem_.ridge() + least_ridge();
        const double goal =
            std::clamp(0.3 * std::sqrt(smooth_share * std::max(gap - smooth, 0.1 * gap) / std::max(smooth, 1e-300)), 0.01, 0.3);
        double size = 0.0, norm = 0.0;
        for (int k = 0; k < columns_; ++k) {
            step_[k] = 0.0;
            residual[k] = -gradient_[k];
            direction[k] = residual[k] / diagonal[k];
            size += residual[k] * direction[k];
            norm += residual[k] * residual[k];
        }
        const double enough = goal * goal * norm;
        for (int iteration = 0; iteration < 4 * usual_conjugate_steps && norm > enough && size > 0.0; ++iteration) {
            sum_band(product.data(),
                     [&](std::int64_t i, double weight, double* sums) { add(i, weight * dot(i, direction.data()), sums); });
            double slope = 0.0;
            for (int k = 0; k < columns_; ++k) {
                product[k] += (k < d_ ? 1.0 : problem_.ridge() + least_ridge()) * direction[k];
                slope += product[k] * direction[k];
            }
            const double length = size / slope;
            double next = 0.0;
            norm = 0.0;
            for (int k = 0; k < columns_; ++k) {
                step_[k] += length * direction[k];
                residual[k] -= length * product[k];
                next += residual[k] * residual[k] / diagonal[k];
                norm += residual[k] * residual[k];
            }
            for (int k = 0; k < columns_; ++k) direction[k] = residual[k] / diagonal[k] + next / size * direction[k];
            size = next;
        }
    }

    // out = the sum over the band of what visit(i, D_i, sums) adds
    template <class Visit>
    void sum_band(double* out, Visit visit) {
        parts_.each([&](int p, std::int64_t, std::int64_t) {
            double* sums = partial_.data() + std::size_t(p) * columns_;
            std::fill(sums, sums + columns_, 0.0);
            for (std::int64_t i : lists_[p].band) visit(i, scale() * std::abs(problem_.reach[i]), sums);
        });
        add_partial_sums(out);
        passes_ += share(n_band_);
    }

    // --- the line search -----------------------------------------------------------------------------------------------

    // The slope of the smooth problem along the step, and its own slope, at this length.
    SlopeOfLosses slope_at(double length) const {
        const RoundedLosses of = losses();
        std::vector<SlopeOfLosses> slopes(parts_.size());
        parts_.each([&](int p, std::int64_t first, std::int64_t last) {
            slopes[p] = loops<double>().losses.slope(of, moves_.data(), length, first, last);
        });
        SlopeOfLosses all{0.0, 0.0};
        for (int k = 0; k < columns_; ++k) {
            const double ridge = k < d_ ? 1.0 : problem_.ridge();
            all.slope += ridge * step_[k] * (weights_[k] + length * step_[k]);
            all.curvature += ridge * step_[k] * step_[k];
        }
        if (problem_.has_bias()) all.slope += problem_.total * problem_.constant * step_[d_];
        for (const SlopeOfLosses& own : slopes) {
            all.slope += own.slope;
            all.curvature += own.curvature;
        }
        return all;
    }

    // The length at which the slope is nearly zero: Newton's method for the slope, kept within a bracket. Zero if the step does
    // not lead down: rounding is then all that is left.
    double search_line() const {
        double first = 0.0;
        for (int k = 0; k < columns_; ++k) first += gradient_[k] * step_[k];
        if (!(first < 0.0)) return 0.0;
        double below = 0.0, above = std::numeric_limits<double>::infinity(), length = 1.0;
        for (int trial = 0; trial < most_line_searches; ++trial) {
            const SlopeOfLosses here = slope_at(length);
            // beyond the minimum the slope must be small for its curvature too: along a step that is far too long, the losses
            // bend near its start, and the little slope that is left at its end is a long way up
            const double enough = -line_search_slope * (here.slope > 0.0 ? std::max(first, -here.curvature * length) : first);
            if (std::abs(here.slope) <= enough) return length;
            (here.slope < 0.0 ? below : above) = length;
            double next = here.curvature > 0.0 ? length - here.slope / here.curvature : 2.0 * length;
            if (!(next > below && next < above))
                next = above < std::numeric_limits<double>::infinity() ? 0.5 * (below + above) : 2.0 * length;
            length = next;
        }
        return below;
    }

    const View X_;
    const LinearProblem problem_;
    double* const beta_;
    double* const weights_;
    const std::int64_t stride_, n_;
    const int d_, columns_;
    const Parts parts_;
    Buffer<double> scores_, moves_, anchor_;
    Buffer<char> bends_, in_matrix_;  // of each sample: whether its dual bends, and whether its row is in the matrix
    std::vector<double> products_, gradient_, step_, partial_, matrix_, factor_;
    std::vector<double> centre_;  // of the rows in the equations of a step; empty: zero
    struct Lists {
        std::vector<std::int64_t> band, entering, leaving;
    };
    std::vector<Lists> lists_;
    std::int64_t n_band_ = 0, n_entering_ = 0, n_leaving_ = 0;
    double width_, first_width_, total_cost_, passes_ = 0.0;
    bool needs_start_;
    std::int64_t rounds_ = 0;
};

}  // namespace

template <class View>
std::unique_ptr<LinearSolver> newton_solver(const View& X, const LinearProblem& problem, double* beta, double* weights) {
    return std::make_unique<Newton<View>>(X, problem, beta, weights);
}

#define MAXMARGIN_NEWTON(...) \
    template std::unique_ptr<LinearSolver> newton_solver(const __VA_ARGS__&, const LinearProblem&, double*, double*);
MAXMARGIN_NEWTON(DenseView<float>)
MAXMARGIN_NEWTON(DenseView<double>)
MAXMARGIN_NEWTON(CsrView<float, std::int32_t>)
MAXMARGIN_NEWTON(CsrView<float, std::int64_t>)
MAXMARGIN_NEWTON(CsrView<double, std::int32_t>)
MAXMARGIN_NEWTON(CsrView<double, std::int64_t>)

}  // namespace maxmargin
