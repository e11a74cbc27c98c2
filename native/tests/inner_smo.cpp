// The inner solver on random problems: optimal to tolerance, inside the box, on the constraint, with a true gradient.
#include <limits>
#include <random>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

enum class Box { finite, half_line };

// What the gradient may lose, relative to the size of beta: a pair step adds t (K_i - K_j) with the difference taken in T.
template <class T>
constexpr double rounding = sizeof(T) == 4 ? 1e-5 : 1e-12;

template <class T>
struct Problem {
    int m;
    Tile<T> K;
    std::vector<double> lower, upper, beta, gradient, linear;

    // C-SVC on random labels over an RBF kernel: K is positive definite, and many variables end up at a bound.
    Problem(int size, Box box, double C, double shift, unsigned seed) : m(size) {
        const Data<T> data(m, 5, seed);
        K.resize(m);
        for (int a = 0; a < m; ++a)
            for (int b = 0; b < m; ++b)
                K.row(a)[b] = static_cast<T>(plain_kernel({KernelKind::rbf, 1.0}, data.row(a), data.row(b), 5) + (a == b) * shift);
        for (int k = 0; k < m; ++k) {
            const double sign = (data.row(k)[0] > 0.0) != (k % 7 == 0) ? 1.0 : -1.0;
            const double reach = box == Box::finite ? C : std::numeric_limits<double>::infinity();
            linear.push_back(-sign);
            lower.push_back(sign > 0.0 ? 0.0 : -reach);
            upper.push_back(sign > 0.0 ? reach : 0.0);
        }
        beta.assign(m, 0.0);
        gradient = linear;
    }

    std::vector<double> true_gradient() const {
        std::vector<double> G = linear;
        for (int a = 0; a < m; ++a)
            for (int b = 0; b < m; ++b) G[a] += static_cast<double>(K.row(a)[b]) * beta[b];
        return G;
    }
    double violation(bool coupled) const {
        const std::vector<double> G = true_gradient();
        double lowest = coupled ? 1e300 : 0.0, highest = coupled ? -1e300 : 0.0;
        for (int k = 0; k < m; ++k) {
            if (beta[k] < upper[k]) lowest = std::min(lowest, G[k]);
            if (beta[k] > lower[k]) highest = std::max(highest, G[k]);
        }
        return coupled ? std::max(0.0, highest - lowest) : std::max(-lowest, highest);
    }
    TileResult solve(bool coupled, double tolerance, long max_steps) {
        const std::vector<int> edges = coupled ? std::vector<int>{0, size()} : std::vector<int>{};
        TileProblem<T> problem{K, lower.data(), upper.data(), beta.data(), gradient.data(), edges, tolerance, max_steps};
        return loops<T>().solve_tile(problem);
    }
    void check_feasible(bool coupled) const {
        double sum = 0.0;
        bool inside = true;
        for (int k = 0; k < m; ++k) {
            inside = inside && lower[k] <= beta[k] && beta[k] <= upper[k];
            sum += beta[k];
        }
        CHECK(inside);
        if (coupled) CHECK(std::abs(sum) <= 1e-13 * size());
    }
    void check_gradient() const {
        const std::vector<double> G = true_gradient();
        double error = 0.0;
        for (int k = 0; k < m; ++k) error = std::max(error, std::abs(G[k] - gradient[k]));
        CHECK(error <= rounding<T> * size());
    }
    double size() const {
        double sum = 1.0;
        for (double value : beta) sum += std::abs(value);
        return sum;
    }
};

template <class T>
void test_optimum(int m, Box box, double C, bool coupled, double tolerance) {
    Problem<T> problem(m, box, C, box == Box::finite ? 0.0 : 0.5 / C, 31 + m);
    const TileResult result = problem.solve(coupled, tolerance, 1'000'000);
    CHECK(result.steps < 1'000'000);
    CHECK(result.violation <= tolerance);
    CHECK(problem.violation(coupled) <= tolerance + 2.0 * rounding<T> * problem.size());
    CHECK(result.lowest_curvature >= -1e-6);
    problem.check_feasible(coupled);
    problem.check_gradient();
}

// Stopped early and started again, it goes on from where it is.
template <class T>
void test_restart(bool coupled) {
    Problem<T> problem(100, Box::finite, 10.0, 0.0, 5);
    long steps = 0;
    for (int round = 0; round < 10'000; ++round) {
        const TileResult result = problem.solve(coupled, 1e-6, 7);
        CHECK(result.steps <= 7);
        problem.check_feasible(coupled);
        steps += result.steps;
        if (result.violation <= 1e-6) break;
    }
    CHECK(steps > 7);
    CHECK(problem.violation(coupled) <= 1e-6 + 2.0 * rounding<T> * problem.size());
    problem.check_gradient();
}

// Duplicate samples with opposite labels have no curvature between them, and no step may be infinite.
template <class T>
void test_duplicates(bool coupled) {
    Problem<T> problem(64, Box::finite, 2.0, 0.0, 8);
    for (int a = 0; a < 64; ++a)
        for (int b = 0; b < 64; ++b) problem.K.row(a)[b] = T(1);
    const TileResult result = problem.solve(coupled, 1e-3, 100'000);
    CHECK(result.violation <= 1e-3);
    problem.check_feasible(coupled);
    problem.check_gradient();
}

// A negative direction is reported, and ends at the box.
template <class T>
void test_indefinite() {
    Problem<T> problem(10, Box::finite, 1.0, 0.0, 8);
    for (int a = 0; a < 10; ++a) problem.K.row(a)[a] = T(-1);
    const TileResult result = problem.solve(true, 1e-3, 10'000);
    CHECK(result.steps < 10'000);
    CHECK(result.lowest_curvature < -0.1);
    problem.check_feasible(true);
}

// Many small problems side by side give what each gives alone.
template <class T>
void test_side_by_side(bool shifted) {
    const int n = 120, d = 40;
    const Kernel kernel{KernelKind::rbf, 1.0};
    const Data<T> data(n, d, 77);
    Gram<T> gram(kernel, data.samples(Storage::dense), {0, n}, 0);
    const std::vector<std::pair<int, int>> spans{{0, 50}, {50, 51}, {30, 110}, {110, 112}, {0, 120}};
    struct Alone {
        std::vector<std::int32_t> members;
        std::vector<double> lower, upper, shift, beta, gradient, linear;
    };
    std::vector<Alone> parts(spans.size());
    std::vector<SmallProblem<T>> problems;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        Alone& part = parts[i];
        for (int k = spans[i].first; k < spans[i].second; ++k) {
            const double sign = k % 3 ? 1.0 : -1.0;
            part.members.push_back(k);
            part.lower.push_back(sign > 0.0 ? 0.0 : -1.0);
            part.upper.push_back(sign > 0.0 ? 1.0 : 0.0);
            part.linear.push_back(-sign);
            part.shift.push_back(0.25);
        }
        part.beta.assign(part.members.size(), 0.0);
        part.gradient = part.linear;
        problems.push_back({part.members.data(), int(part.members.size()), part.lower.data(), part.upper.data(),
                            shifted ? part.shift.data() : nullptr, part.beta.data(), part.gradient.data(), true, 1e-4, 1e-9,
                            100'000, {}});
    }
    solve_tiles(gram, problems);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Alone& part = parts[i];
        CHECK(problems[i].result.violation <= 1e-4);
        double lowest = 1e300, highest = -1e300, sum = 0.0;
        for (std::size_t a = 0; a < part.members.size(); ++a) {
            double G = part.linear[a] + (shifted ? 0.25 * part.beta[a] : 0.0);
            for (std::size_t b = 0; b < part.members.size(); ++b)
                G += plain_kernel(kernel, data.row(part.members[a]), data.row(part.members[b]), d) * part.beta[b];
            if (part.beta[a] < part.upper[a]) lowest = std::min(lowest, G);
            if (part.beta[a] > part.lower[a]) highest = std::max(highest, G);
            sum += part.beta[a];
        }
        CHECK(highest - lowest <= 1e-4 + 100.0 * rounding<T>);
        CHECK(std::abs(sum) <= 1e-12);
    }
}

template <class T>
void test_arithmetic() {
    const std::string arithmetic = name_of<T>();
    for (bool coupled : {true, false}) {
        const std::string kind = arithmetic + (coupled ? ", coupled" : ", not coupled");
        for (int m : {1, 2, 63, 64, 65, 130, 300})
            for (double C : {0.1, 10.0, 1000.0})
                for (double tolerance : {1e-3, 1e-9}) {
                    if (C > 10.0 && tolerance < 1e-3) continue;  // nearly singular: many steps, and slow under a sanitizer
                    const std::string name = "inner solve, " + kind + ", " + std::to_string(m) + " variables, C = " + std::to_string(C);
                    run(name + ", box", [&] { test_optimum<T>(m, Box::finite, C, coupled, tolerance); });
                    run(name + ", half-lines", [&] { test_optimum<T>(m, Box::half_line, C, coupled, tolerance); });
                }
        run("inner solve restarted, " + kind, [&] { test_restart<T>(coupled); });
        run("inner solve of duplicates, " + kind, [&] { test_duplicates<T>(coupled); });
    }
    run("inner solve, indefinite, " + arithmetic, test_indefinite<T>);
    for (bool shifted : {true, false}) run("side by side, " + arithmetic, [&] { test_side_by_side<T>(shifted); });
}

}  // namespace

void test_inner_smo() {
    test_arithmetic<float>();
    test_arithmetic<double>();
}

}  // namespace tests
