// The inner solver of Crammer and Singer's machine: optimal to tolerance, inside the bounds, on the constraints, with a true
// gradient; and the sums of kernel rows with the weights of several classes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

// The largest error of the gradient, relative to the size of B.
template <class T>
constexpr double rounding = sizeof(T) == 4 ? 1e-6 : 1e-13;

template <class T>
struct Problem {
    int m, rows;
    Tile<T> K;
    std::vector<double> upper, linear, beta, gradient;

    // Random classes over an RBF kernel; every seventh sample has no weight.
    Problem(int size, int n_rows, double C, unsigned seed) : m(size), rows(n_rows) {
        const Data<T> data(m, 5, seed);
        K.resize(m);
        for (int a = 0; a < m; ++a)
            for (int b = 0; b < m; ++b)
                K.row(a)[b] = static_cast<T>(plain_kernel({KernelKind::rbf, 1.0}, data.row(a), data.row(b), 5));
        upper.assign(rows * m, 0.0), linear.assign(rows * m, 1.0), beta.assign(rows * m, 0.0);
        for (int i = 0; i < m; ++i) {
            const int label = static_cast<int>(std::abs(data.row(i)[0]) * 37.0 + i % 2) % rows;
            upper[label * m + i] = i % 7 == 6 ? 0.0 : C;
            linear[label * m + i] = 0.0;
        }
        gradient = linear;
    }

    std::vector<double> true_gradient() const {
        std::vector<double> G = linear;
        for (int c = 0; c < rows; ++c)
            for (int a = 0; a < m; ++a)
                for (int b = 0; b < m; ++b) G[c * m + a] += static_cast<double>(K.row(a)[b]) * beta[c * m + b];
        return G;
    }
    double violation(const std::vector<double>& G) const {
        double worst = 0.0;
        for (int i = 0; i < m; ++i) {
            double highest = -1e300, lowest = 1e300;
            for (int c = 0; c < rows; ++c) {
                highest = std::max(highest, G[c * m + i]);
                if (beta[c * m + i] < upper[c * m + i]) lowest = std::min(lowest, G[c * m + i]);
            }
            worst = std::max(worst, highest - lowest);
        }
        return worst;
    }
    TileResult solve(double tolerance, long max_steps) {
        JointTileProblem<T> problem{
            K, rows, upper.data(), beta.data(), gradient.data(), tolerance, max_steps, Deadline(Deadline::never)};
        return loops<T>().solve_joint_tile(problem);
    }
    double size() const {
        double sum = 1.0;
        for (double value : beta) sum += std::abs(value);
        return sum;
    }
    void check_feasible() const {
        bool inside = true, balanced = true, idle = true;
        for (int i = 0; i < m; ++i) {
            double sum = 0.0, total = 0.0;
            for (int c = 0; c < rows; ++c) {
                inside = inside && beta[c * m + i] <= upper[c * m + i];
                sum += beta[c * m + i], total += upper[c * m + i];
                idle = idle && (total > 0.0 || c < rows - 1 || beta[c * m + i] == 0.0);
            }
            balanced = balanced && std::abs(sum) <= 1e-14 * (1.0 + total);
        }
        CHECK(inside);
        CHECK(balanced);
        CHECK(idle);
    }
    void check_gradient() const {
        const std::vector<double> G = true_gradient();
        double error = 0.0;
        for (int k = 0; k < rows * m; ++k) error = std::max(error, std::abs(G[k] - gradient[k]));
        CHECK(error <= rounding<T> * size());
    }
};

template <class T>
void test_optimum(int m, int rows, double C, double tolerance) {
    Problem<T> problem(m, rows, C, 17 + m);
    const TileResult result = problem.solve(tolerance, 20'000);
    CHECK(result.violation <= tolerance);
    CHECK(result.steps < 20'000);
    CHECK(result.lowest_curvature == 0.0);
    CHECK(problem.violation(problem.true_gradient()) <= tolerance + 2.0 * rounding<T> * problem.size());
    problem.check_feasible();
    problem.check_gradient();
}

// One sample alone: the shares are max(0, D - theta) / a and add up to C.
template <class T>
void test_one_sample(double curvature, double C) {
    Problem<T> problem(1, 4, C, 3);
    problem.K.row(0)[0] = static_cast<T>(curvature);
    const double D[] = {0.3, 1.0, 0.9, -2.0};
    problem.upper = {C, 0.0, 0.0, 0.0};
    problem.beta.assign(4, 0.0);
    problem.gradient = {D[0] - static_cast<double>(problem.K.row(0)[0]) * C, D[1], D[2], D[3]};
    problem.solve(1e-12, 100);
    double low = -1e6, high = 1e6;
    for (int round = 0; round < 200; ++round) {
        const double theta = 0.5 * (low + high);
        double sum = 0.0;
        for (double ceiling : D) sum += std::max(0.0, ceiling - theta);
        (sum > curvature * C ? low : high) = theta;
    }
    for (int c = 0; c < 4; ++c)
        CHECK(close(problem.upper[c] - problem.beta[c], std::max(0.0, D[c] - low) / curvature, 1e-6 * (1.0 + C)));
}

// Stopped early and started again, it goes on from where it is; and never takes more steps than it may.
template <class T>
void test_restart() {
    Problem<T> problem(90, 5, 10.0, 5);
    const double tolerance = sizeof(T) == 4 ? 1e-3 : 1e-6;
    for (int round = 0; round < 20'000; ++round) {
        const TileResult result = problem.solve(tolerance, 7);
        CHECK(result.steps <= 7);
        problem.check_feasible();
        if (result.violation <= tolerance) break;
    }
    problem.check_gradient();
    CHECK(problem.violation(problem.true_gradient()) <= tolerance + 2.0 * rounding<T> * problem.size());
    const std::vector<double> before = problem.beta;
    CHECK(problem.solve(tolerance, 1000).steps == 0);
    CHECK(problem.beta == before);
}

// Duplicates of different classes, and kernel values that no kernel has: no step may be infinite.
template <class T>
void test_degenerate(double diagonal) {
    Problem<T> problem(40, 3, 2.0, 8);
    for (int a = 0; a < 40; ++a)
        for (int b = 0; b < 40; ++b) problem.K.row(a)[b] = static_cast<T>(a == b ? diagonal : std::min(diagonal, 1.0));
    const TileResult result = problem.solve(1e-3, 10'000);
    problem.check_feasible();
    problem.check_gradient();
    if (diagonal > 0.0) CHECK(result.violation <= 1e-3);
    CHECK((result.lowest_curvature < 0.0) == (diagonal < 0.0));
}

// Sums with several weights for each row are those with each of them; a row is computed once for all.
template <class T>
void test_several_outputs(std::int64_t cache_bytes) {
    const int n = 150, outputs = 5, taken = 40;
    const Data<T> data(n, 30, 9);
    const Kernel kernel{KernelKind::rbf, 0.5};
    Gram<T> gram(kernel, data.samples(Storage::dense), {0, 60, n}, cache_bytes);
    std::vector<std::int32_t> rows(taken);
    std::vector<double> weights(outputs * taken), together(outputs * n, 1.0), apart(outputs * n, 1.0);
    for (int a = 0; a < taken; ++a) rows[a] = (a * 37) % n;
    gram.expect(rows.data(), taken);
    for (int k = 0; k < outputs * taken; ++k) weights[k] = k % 3 ? 0.0 : 0.1 * k - 3.0;
    for (int round = 0; round < 2; ++round) {  // the second time from the cache
        const std::int64_t before = gram.entries_computed();
        gram.accumulate(rows.data(), weights.data(), taken, {0, 1}, together.data(), outputs);
        CHECK(gram.entries_computed() - before == (round && cache_bytes ? 0 : taken * n));
        for (int o = 0; o < outputs; ++o)
            gram.accumulate(rows.data(), weights.data() + o * taken, taken, {0, 1}, apart.data() + o * n);
    }
    double error = 0.0;
    for (int k = 0; k < outputs * n; ++k) error = std::max(error, std::abs(together[k] - apart[k]));
    CHECK(error <= 1e-12);
}

template <class T>
void test_arithmetic() {
    const std::string arithmetic = name_of<T>();
    for (int rows : {2, 3, 5, 12})
        for (int m : {1, 2, 65, 150})
            for (double C : {0.1, 10.0, 1000.0})
                run("joint tile, " + arithmetic + ", " + std::to_string(rows) + " classes, " + std::to_string(m) + " samples",
                    [&] { test_optimum<T>(m, rows, C, sizeof(T) == 4 ? 1e-3 : 1e-6); });
    for (double curvature : {0.01, 1.0, 100.0})
        for (double C : {0.1, 5.0}) run("joint tile of one sample, " + arithmetic, [&] { test_one_sample<T>(curvature, C); });
    run("joint tile restarted, " + arithmetic, test_restart<T>);
    for (double diagonal : {1.0, 0.0, -1.0}) run("degenerate joint tile, " + arithmetic, [&] { test_degenerate<T>(diagonal); });
    for (std::int64_t cache_bytes : {0, 1 << 20})
        run("several outputs, " + arithmetic, [&] { test_several_outputs<T>(cache_bytes); });
}

}  // namespace

void test_crammer_singer() {
    test_arithmetic<float>();
    test_arithmetic<double>();
}

}  // namespace tests
