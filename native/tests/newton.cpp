// The Cholesky factorisation by a team, and the Newton step within bounds.
#define MAXMARGIN_LEVEL newton_test
#include "../simd/active_set_newton.hpp"

#include <random>
#include <vector>

#include "check.hpp"
#include "maxmargin/cholesky.hpp"

namespace tests {
namespace {

using namespace maxmargin;
using newton_test::ActiveSetNewton;
using newton_test::Bound;

// A positive definite matrix (column-major), far from diagonal.
std::vector<double> definite(int n, unsigned seed) {
    std::mt19937 draw(seed);
    std::normal_distribution<double> normal;
    std::vector<double> points(n), A(static_cast<std::size_t>(n) * n);
    for (double& x : points) x = normal(draw);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            A[static_cast<std::size_t>(j) * n + i] =
                std::exp(-(points[i] - points[j]) * (points[i] - points[j])) + (i == j) * 0.05;
    return A;
}

void test_factor(int n, int size) {
    const std::vector<double> A = definite(n, 1);
    std::vector<double> alone = A, L = A, B(A.begin(), A.begin() + 11 * n);
    Team one;
    CHECK(cholesky(n, alone.data(), one));
    Team::gather(size, [&](Team& team) {
        CHECK(cholesky(n, L.data(), team));
        cholesky_solve(n, 11, L.data(), B.data(), team);
    });
    for (int j = 0; j < n; ++j)
        for (int i = j; i < n; ++i) {
            CHECK(L[j * n + i] == alone[j * n + i]);  // whatever the size of the team
            double sum = 0.0;
            for (int k = 0; k <= j; ++k) sum += L[k * n + i] * L[k * n + j];
            CHECK(close(sum, A[j * n + i], 1e-12));
        }
    for (int c = 0; c < 11; ++c)  // the solution of A x = (column c of A) is a unit vector
        for (int i = 0; i < n; ++i) CHECK(close(B[c * n + i], i == c, 1e-9));
    L = A;
    L[static_cast<std::size_t>(n) * n - 1] = -1.0;
    CHECK(!cholesky(n, L.data(), one));
}

// The end of the walk: within the boxes, on the tie, and the minimum over the variables that have met no bound; or, after as many
// bounds as are allowed, on the way there.
void test_walk(int n, int most_met) {
    const std::vector<double> H = definite(n, 2);
    std::mt19937 draw(3);
    std::normal_distribution<double> normal;
    ActiveSetNewton newton;
    std::vector<double> start;
    for (int v = 0; v < n; ++v) {
        start.push_back(0.5);
        newton.gradient.push_back(2.0 * normal(draw));
        newton.scale.push_back(1.0);
        newton.bounds.push_back({{v, v + 1}, 0.5, 0.0, 1.0});
    }
    newton.ties.push_back({0, n});
    const std::vector<double> gradient = newton.gradient;
    int n_met = 0;
    Team::gather(2, [&](Team& team) {
        CHECK(newton.factor(0.0, [&](int v, double* column) { std::copy_n(&H[v * n] + v, n - v, column + v); }, team));
        n_met = newton.minimise(most_met, team);
    });
    CHECK(most_met < n ? n_met == most_met + 1 : n_met > 20);  // many more than are solved for together
    double sum = 0.0, decrease = 0.0, lowest = 1e30, highest = -1e30;
    std::vector<double> end = gradient;
    int n_at_bounds = 0;
    for (int v = 0; v < n; ++v) {
        const Bound& bound = newton.bounds[v];
        CHECK(bound.at >= -1e-12 && bound.at <= 1.0 + 1e-12);
        CHECK(!bound.met || bound.at == 0.0 || bound.at == 1.0);
        n_at_bounds += bound.met;
        sum += bound.at - start[v];
        for (int w = 0; w < n; ++w) end[w] += H[v * n + w] * (bound.at - start[v]);
    }
    CHECK(n_at_bounds == n_met);
    CHECK(close(sum, 0.0, 1e-9));
    for (int v = 0; v < n; ++v) {
        decrease -= 0.5 * (gradient[v] + end[v]) * (newton.bounds[v].at - start[v]);
        if (!newton.bounds[v].met) lowest = std::min(lowest, end[v]), highest = std::max(highest, end[v]);
    }
    CHECK(decrease > 0.0);
    if (most_met >= n) CHECK(highest - lowest < 1e-9);  // one level: no direction that keeps the tie leads further down
}

}  // namespace

void test_newton() {
    for (int n : {11, 40, 128, 300})
        for (int size : {1, 2, 3})
            run("cholesky of " + std::to_string(n) + " by " + std::to_string(size), [=] { test_factor(n, size); });
    for (int most_met : {0, 5, 1000}) run("newton, " + std::to_string(most_met) + " bounds", [=] { test_walk(150, most_met); });
}

}  // namespace tests
