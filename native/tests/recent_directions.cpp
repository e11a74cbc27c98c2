// Steps along several directions: to the minimum over all of them, and never out of a box.
#define MAXMARGIN_LEVEL directions_test
#include "../simd/recent_directions.hpp"

#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"

namespace tests {
namespace {

using maxmargin::directions_test::RecentDirections;

// Steps along random pairs of a few variables, so that pairs often have variables in common.
void test_steps(double width) {
    constexpr int n = 5;
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    double points[n], K[n][n];
    for (double& x : points) x = normal(random);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) K[i][j] = std::exp(-(points[i] - points[j]) * (points[i] - points[j])) + 0.3 * (i == j);
    std::vector<double> beta(n, 0.0), gradient(n);
    RecentDirections<double> directions;
    std::vector<std::pair<int, int>> pairs;  // of the steps so far
    int several = 0, at_bounds = 0;
    const auto slope = [&](std::pair<int, int> d) { return gradient[d.first] - gradient[d.second]; };
    for (int step = 0; step < 600; ++step) {
        if (step % 20 == 0) {  // another problem
            directions = {};
            for (double& g : gradient) g = normal(random);
        }
        int i = static_cast<int>(random() % n), j = static_cast<int>(random() % n);
        if (i == j) continue;
        if (gradient[i] > gradient[j]) std::swap(i, j);
        if (gradient[j] - gradient[i] < 1e-6 || beta[i] >= width || beta[j] <= -width) continue;
        std::array<double, 2> across{};
        for (int d = 0; d < directions.known(); ++d) {
            const auto [a, b] = pairs[pairs.size() - 1 - d];
            across[d] = K[i][a] - K[i][b] - K[j][a] + K[j][b];
        }
        const double curvature = K[i][i] + K[j][j] - 2.0 * K[i][j];
        directions.minimise({i, width - beta[i], beta[i] + width}, {j, width - beta[j], beta[j] + width},
                            gradient[j] - gradient[i], curvature, true, across);
        std::vector<double> change(n, 0.0);
        if (directions.is_plain())
            change[i] += directions.length(0), change[j] -= directions.length(0);
        else
            directions.visit_moves([&](int k, double by) { change[k] += by; });
        pairs.push_back({i, j});
        for (int k = 0; k < n; ++k) {
            beta[k] += change[k];
            CHECK(std::abs(beta[k]) <= width * (1.0 + 1e-12));
            for (int l = 0; l < n; ++l) gradient[l] += change[k] * K[k][l];
        }
        directions.advance();
        several += !directions.is_plain(), at_bounds += directions.is_forgotten();
        for (int d = 0; d < directions.known(); ++d) CHECK(close(slope(pairs[pairs.size() - 1 - d]), 0.0, 1e-9));
    }
    CHECK(several > 20);
    CHECK(width > 10.0 || at_bounds > 10);
}

}  // namespace

void test_recent_directions() {
    run("recent directions, wide boxes", [] { test_steps(100.0); });
    run("recent directions, narrow boxes", [] { test_steps(0.5); });
}

}  // namespace tests
