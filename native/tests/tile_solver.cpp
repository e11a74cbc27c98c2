// The inner solver on random problems: optimal to tolerance, inside the box, on the constraint, with a true gradient.
#include <omp.h>

#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

enum class Box { finite, half_line, line };  // half-lines: squared hinge, hard margin; lines: least squares
enum class Groups { none, one, two, two_of_which_one_is_empty };

std::string words(Groups groups) {
    switch (groups) {
        case Groups::none: return "no group";
        case Groups::one: return "one group";
        case Groups::two: return "two groups";
        default: return "two groups, one of them empty";
    }
}

// Where the groups of m variables begin and end.
std::vector<int> edges_of(Groups groups, int m) {
    switch (groups) {
        case Groups::none: return {};
        case Groups::one: return {0, m};
        case Groups::two: return {0, (m + 2) / 3, m};
        default: return {0, m, m};
    }
}

constexpr long most_steps = 60'000;  // Newton steps end what takes pair steps several times as many

// The largest error of the gradient, relative to the size of beta: a pair step adds t (K_i - K_j) with the difference taken in T.
template <class T>
constexpr double rounding = sizeof(T) == 4 ? 1e-5 : 1e-12;

template <class T>
struct Problem {
    int m;
    Tile<T> K;
    std::vector<int> edges;
    std::vector<double> lower, upper, beta, gradient, linear, sums;  // sums: of each group, at the start

    // C-SVC on random labels over an RBF kernel: K is positive definite, and many variables end up at a bound. With two groups it
    // is nu-SVC: a class each, no linear term, and a start in which the first variables of each group take all they can.
    Problem(int size, Groups groups, Box box, double C, double shift, unsigned seed) : m(size), edges(edges_of(groups, size)) {
        const Data<T> data(m, 5, seed);
        K.resize(m);
        for (int a = 0; a < m; ++a)
            for (int b = 0; b < m; ++b)
                K.row(a)[b] =
                    static_cast<T>(plain_kernel({KernelKind::rbf, 1.0}, data.row(a), data.row(b), 5) + (a == b) * shift);
        const bool nu = edges.size() == 3;
        for (int k = 0; k < m; ++k) {
            const bool positive = nu ? k < edges[1] : (data.row(k)[0] > 0.0) != (k % 7 == 0);
            const double reach = box == Box::finite ? C : std::numeric_limits<double>::infinity();
            linear.push_back(nu ? 0.0 : positive ? -1.0 : 1.0);
            lower.push_back(positive && box != Box::line ? 0.0 : -reach);
            upper.push_back(positive || box == Box::line ? reach : 0.0);
        }
        beta.assign(m, 0.0);
        const int smaller = !nu ? 0 : edges[1] == m ? m : std::min(edges[1], m - edges[1]);
        for (std::size_t g = 0; nu && g < 2; ++g) {
            double rest = 0.4 * C * smaller;  // the same for both, as in a nu-machine
            for (int k = edges[g]; k < edges[g + 1]; ++k) {
                const double taken = std::min(rest, C);
                beta[k] = g == 0 ? taken : -taken;
                rest -= taken;
            }
        }
        sums = sums_of_groups();
        gradient = true_gradient();
    }

    std::vector<double> sums_of_groups() const {
        std::vector<double> totals;
        for (std::size_t g = 0; g + 1 < edges.size(); ++g)
            totals.push_back(std::accumulate(beta.begin() + edges[g], beta.begin() + edges[g + 1], 0.0));
        return totals;
    }
    std::vector<double> true_gradient() const {
        std::vector<double> G = linear;
        for (int a = 0; a < m; ++a)
            for (int b = 0; b < m; ++b) G[a] += static_cast<double>(K.row(a)[b]) * beta[b];
        return G;
    }
    // The largest slope of a pair of one group, or of a single variable where there are none.
    double violation() const {
        const std::vector<double> G = true_gradient();
        double worst = 0.0;
        for (std::size_t g = 0; g < std::max<std::size_t>(1, edges.size() - !edges.empty()); ++g) {
            double lowest = edges.empty() ? 0.0 : 1e300, highest = edges.empty() ? 0.0 : -1e300;
            for (int k = edges.empty() ? 0 : edges[g]; k < (edges.empty() ? m : edges[g + 1]); ++k) {
                if (beta[k] < upper[k]) lowest = std::min(lowest, G[k]);
                if (beta[k] > lower[k]) highest = std::max(highest, G[k]);
            }
            worst = std::max(worst, edges.empty() ? std::max(-lowest, highest) : highest - lowest);
        }
        return worst;
    }
    TileProblem<T> stated(double tolerance, long max_steps) {
        return {
            K, lower.data(), upper.data(), beta.data(), gradient.data(), edges, tolerance, max_steps, Deadline(Deadline::never)};
    }
    TileResult solve(double tolerance, long max_steps) {
        TileProblem<T> problem = stated(tolerance, max_steps);
        return loops<T>().solve_tile(problem);
    }
    void check_feasible() const {
        bool inside = true;
        for (int k = 0; k < m; ++k) inside = inside && lower[k] <= beta[k] && beta[k] <= upper[k];
        CHECK(inside);
        const std::vector<double> now = sums_of_groups();
        for (std::size_t g = 0; g < sums.size(); ++g) CHECK(std::abs(now[g] - sums[g]) <= 1e-13 * size());
    }
    void check_gradient() const {
        const std::vector<double> G = true_gradient();
        double error = 0.0;
        for (int k = 0; k < m; ++k) error = std::max(error, std::abs(G[k] - gradient[k]));
        CHECK(error <= rounding<T> * size());
    }
    double objective() const {
        const std::vector<double> G = true_gradient();
        double value = 0.0;
        for (int k = 0; k < m; ++k) value += 0.5 * beta[k] * (G[k] + linear[k]);
        return value;
    }
    double size() const {
        double sum = 1.0;
        for (double value : beta) sum += std::abs(value);
        return sum;
    }
};

template <class T>
void test_optimum(int m, Groups groups, Box box, double C, double tolerance) {
    Problem<T> problem(m, groups, box, C, box == Box::finite ? 0.0 : 0.5 / C, 31 + m);
    const TileResult result = problem.solve(tolerance, most_steps);
    CHECK(result.steps < most_steps);
    CHECK(result.violation <= tolerance);
    CHECK(problem.violation() <= tolerance + 2.0 * rounding<T> * problem.size());
    CHECK(result.lowest_curvature >= -1e-6);
    problem.check_feasible();
    problem.check_gradient();
}

// Infinite bounds: the optimum is that of a box which no variable reaches. A hard margin has no shift.
template <class T>
void test_infinite_bounds(Groups groups, Box box, double shift) {
    Problem<T> without(150, groups, box, 1.0, shift, 21), within(150, groups, box, 1.0, shift, 21);
    for (int k = 0; k < within.m; ++k) {
        within.lower[k] = std::max(within.lower[k], -1e8);
        within.upper[k] = std::min(within.upper[k], 1e8);
    }
    for (Problem<T>* problem : {&without, &within}) {
        CHECK(problem->solve(1e-6, most_steps).violation <= 1e-6);
        CHECK(problem->violation() <= 1e-6 + 2.0 * rounding<T> * problem->size());
        problem->check_feasible();
        problem->check_gradient();
    }
    for (double value : within.beta) CHECK(std::abs(value) < 1e8);
    CHECK(close(without.objective(), within.objective(), 1e-5 * std::abs(within.objective())));
}

// The solvers are compiled for finite numbers: a problem states no others, and its bounds have finite differences.
template <class T>
void test_infinity_is_kept_out() {
    const double infinity = std::numeric_limits<double>::infinity();
    Problem<T> problem(40, Groups::one, Box::half_line, 1.0, 0.5, 3);
    problem.lower[0] = -infinity, problem.upper[0] = infinity;
    problem.lower[1] = -0.25, problem.upper[1] = 0.75;
    const TileProblem<T> stated = problem.stated(infinity, 10);
    for (int k = 0; k < problem.m; ++k) CHECK(std::isfinite(stated.upper[k] - stated.lower[k]));
    CHECK(std::isfinite(stated.tolerance));
    CHECK(stated.lower[0] == -unbounded && stated.upper[0] == unbounded);
    CHECK(stated.lower[1] == -0.25 && stated.upper[1] == 0.75);
    const std::vector<double> before = problem.beta;
    CHECK(problem.solve(infinity, 10).steps == 0);
    CHECK(problem.beta == before);
}

// Variables that cannot move, whole chunks of them, as the samples a fold holds out: their gradient is true as well.
template <class T>
void test_held_out(Groups groups, int first, int last) {
    Problem<T> problem(300, groups, Box::finite, 10.0, 0.0, 7);
    for (int k = first; k < last; ++k) problem.lower[k] = problem.upper[k] = problem.beta[k];
    const TileResult result = problem.solve(1e-3, most_steps);
    CHECK(result.violation <= 1e-3 && result.steps > 0);
    CHECK(problem.violation() <= 1e-3 + 2.0 * rounding<T> * problem.size());
    problem.check_feasible();
    problem.check_gradient();
}

// Stopped early and started again, it goes on from where it is, downhill all the way.
template <class T>
void test_restart(Groups groups) {
    Problem<T> problem(100, groups, Box::finite, 10.0, 0.0, 5);
    long steps = 0;
    double before = problem.objective();
    for (int round = 0; round < 10'000; ++round) {
        const TileResult result = problem.solve(1e-6, 7);
        CHECK(result.steps <= 7);
        problem.check_feasible();
        const double now = problem.objective();
        CHECK(now <= before + rounding<T> * problem.size());
        before = now;
        steps += result.steps;
        if (result.violation <= 1e-6) break;
    }
    CHECK(steps > 7);
    CHECK(problem.violation() <= 1e-6 + 2.0 * rounding<T> * problem.size());
    problem.check_gradient();
}

// Two groups of one class each, and the same sum in both: two constraints, where one group has only their difference. So the
// optimum is at least that of one group from the same start.
template <class T>
void test_two_groups_are_one_with_more_constraints() {
    Problem<T> two(130, Groups::two, Box::finite, 1.0, 0.0, 12);
    Problem<T> one(130, Groups::two, Box::finite, 1.0, 0.0, 12);
    one.edges = {0, 130};
    two.solve(1e-9, 1'000'000);
    one.solve(1e-9, 1'000'000);
    CHECK(one.objective() <= two.objective() + rounding<T> * two.size());
    CHECK(two.objective() > 0.0);
    CHECK(std::abs(one.objective()) <= rounding<T> * two.size());  // nothing holds beta away from zero
}

// Duplicate samples with opposite labels have no curvature between them, and no step may be infinite.
template <class T>
void test_duplicates(Groups groups) {
    Problem<T> problem(64, groups, Box::finite, 2.0, 0.0, 8);
    for (int a = 0; a < 64; ++a)
        for (int b = 0; b < 64; ++b) problem.K.row(a)[b] = T(1);
    problem.gradient = problem.true_gradient();
    const TileResult result = problem.solve(1e-3, 100'000);
    CHECK(result.violation <= 1e-3);
    problem.check_feasible();
    problem.check_gradient();
}

// Each sample twice, once in each group, as in regression: K is singular, and so is its part that is free.
template <class T>
void test_twins() {
    Problem<T> problem(120, Groups::two, Box::finite, 3.0, 0.0, 9);
    const Data<T> data(60, 5, 9);
    problem.edges = {0, 60, 120};
    for (int a = 0; a < 120; ++a) {
        for (int b = 0; b < 120; ++b)
            problem.K.row(a)[b] = static_cast<T>(plain_kernel({KernelKind::rbf, 1.0}, data.row(a % 60), data.row(b % 60), 5));
        problem.linear[a] = std::sin(7.0 * (a % 60));
        problem.lower[a] = a < 60 ? 0.0 : -3.0;
        problem.upper[a] = a < 60 ? 3.0 : 0.0;
        problem.beta[a] = a < 60 ? 1.0 : -1.0;
    }
    problem.sums = problem.sums_of_groups();
    problem.gradient = problem.true_gradient();
    const TileResult result = problem.solve(1e-4, 1'000'000);
    CHECK(result.violation <= 1e-4);
    CHECK(problem.violation() <= 1e-4 + 2.0 * rounding<T> * problem.size());
    problem.check_feasible();
    problem.check_gradient();
}

// A negative direction is reported, and ends at the box.
template <class T>
void test_indefinite() {
    Problem<T> problem(10, Groups::one, Box::finite, 1.0, 0.0, 8);
    for (int a = 0; a < 10; ++a) problem.K.row(a)[a] = T(-1);
    const TileResult result = problem.solve(1e-3, 10'000);
    CHECK(result.steps < 10'000);
    CHECK(result.lowest_curvature < -0.1);
    problem.check_feasible();
}

// A problem without a minimum: the variables grow until float32 cannot hold what is compared, and none but them is moved.
template <class T>
void test_unbounded(Groups groups) {
    for (int m : {2, 3, 10, 64, 100}) {
        Problem<T> problem(m, groups, Box::half_line, 1.0, 0.0, 8);
        for (int k = 0; k < m; ++k) {
            const bool positive = k % 2 == 0;
            std::fill_n(problem.K.row(k), m, T(0));
            problem.K.row(k)[k] = positive ? T(-4.3) : T(1.1);
            problem.gradient[k] = problem.linear[k] = positive ? -1.0 : 1.0;
            problem.lower[k] = positive ? 0.0 : -std::numeric_limits<double>::infinity();
            problem.upper[k] = positive ? std::numeric_limits<double>::infinity() : 0.0;
        }
        problem.solve(1e-3, 10'000);
        for (int k = 0; k < m; ++k) CHECK(problem.lower[k] <= problem.beta[k] && problem.beta[k] <= problem.upper[k]);
    }
}

// A large tile is shared by a crew: the solution has the same bits for any number of threads.
template <class T>
void test_threads(Groups groups) {
    constexpr int m = 2112;  // the fewest variables that are shared, and a chunk that the groups share
    const int before = omp_get_max_threads();
    std::vector<std::vector<double>> solutions, gradients;
    for (int threads : {1, 2, 5}) {
        omp_set_num_threads(threads);
        Problem<T> problem(m, groups, Box::finite, 10.0, 0.0, 17);
        for (int k = 640; k < 704; ++k) problem.lower[k] = problem.upper[k] = problem.beta[k];  // a chunk that is held out
        problem.solve(1e-12, 2000);
        problem.check_feasible();
        solutions.push_back(problem.beta), gradients.push_back(problem.gradient);
    }
    omp_set_num_threads(before);
    CHECK(solutions[0] == solutions[1] && solutions[0] == solutions[2]);
    CHECK(gradients[0] == gradients[1] && gradients[0] == gradients[2]);
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
        problems.push_back({part.members.data(),
                            int(part.members.size()),
                            part.lower.data(),
                            part.upper.data(),
                            shifted ? part.shift.data() : nullptr,
                            part.beta.data(),
                            part.gradient.data(),
                            true,
                            1e-4,
                            1e-9,
                            100'000,
                            {}});
    }
    solve_tiles(gram, problems, Deadline(Deadline::never));
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
    for (Groups groups : {Groups::none, Groups::one, Groups::two, Groups::two_of_which_one_is_empty}) {
        const std::string kind = arithmetic + ", " + words(groups);
        const bool nu = edges_of(groups, 2).size() == 3;  // such problems are bounded by their box
        for (int m : {1, 2, 63, 64, 65, 130, 300})
            for (double C : {0.1, 10.0, 1000.0})
                for (double tolerance : {1e-3, 1e-9}) {
                    if (C > 10.0 && tolerance < 1e-3) continue;  // nearly singular: many steps, and slow under a sanitizer
                    const std::string name =
                        "inner solve, " + kind + ", " + std::to_string(m) + " variables, C = " + std::to_string(C);
                    run(name + ", box", [&] { test_optimum<T>(m, groups, Box::finite, C, tolerance); });
                    if (!nu) run(name + ", half-lines", [&] { test_optimum<T>(m, groups, Box::half_line, C, tolerance); });
                }
        for (Box box : {Box::half_line, Box::line})
            for (double shift : {0.0, 0.5})
                if (!nu) run("infinite bounds, " + kind, [&] { test_infinite_bounds<T>(groups, box, shift); });
        if (groups != Groups::two_of_which_one_is_empty) run("inner solve restarted, " + kind, [&] { test_restart<T>(groups); });
        for (auto [first, last] : {std::pair{0, 64}, {60, 200}, {128, 300}})
            run("inner solve, some held out, " + kind, [&] { test_held_out<T>(groups, first, last); });
        run("inner solve of duplicates, " + kind, [&] { test_duplicates<T>(groups); });
    }
    for (Groups groups : {Groups::none, Groups::one, Groups::two})
        run("threads, " + arithmetic + ", " + words(groups), [=] { test_threads<T>(groups); });
    run("infinity is kept out, " + arithmetic, test_infinity_is_kept_out<T>);
    run("two groups and one, " + arithmetic, test_two_groups_are_one_with_more_constraints<T>);
    run("inner solve of twins, " + arithmetic, test_twins<T>);
    run("inner solve, indefinite, " + arithmetic, test_indefinite<T>);
    for (Groups groups : {Groups::none, Groups::one})
        run("inner solve, unbounded, " + arithmetic + ", " + words(groups), [=] { test_unbounded<T>(groups); });
    for (bool shifted : {true, false}) run("side by side, " + arithmetic, [&] { test_side_by_side<T>(shifted); });
}

}  // namespace

void test_tile_solver() {
    test_arithmetic<float>();
    test_arithmetic<double>();
}

}  // namespace tests
