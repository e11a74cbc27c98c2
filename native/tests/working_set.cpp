// The violation of a point, and what a working set must contain.
#include "maxmargin/working_set.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "check.hpp"

namespace tests {
namespace {

using namespace maxmargin;

struct Point {
    std::vector<double> beta, lower, upper, gradient;
    bool coupled;

    Point(int n, unsigned seed, bool is_coupled) : coupled(is_coupled) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<double> uniform(0.0, 1.0);
        for (int k = 0; k < n; ++k) {
            const bool positive = random() % 2;
            lower.push_back(positive ? 0.0 : -1.0);
            upper.push_back(positive ? 1.0 : 0.0);
            const int where = random() % 3;
            beta.push_back(where == 0 ? lower[k] : where == 1 ? upper[k] : lower[k] + uniform(random));
            gradient.push_back(uniform(random) - 0.5);
        }
    }
    int size() const { return int(beta.size()); }
    DualState state() const {
        const auto edges = coupled ? std::vector<std::int64_t>{0, size()} : std::vector<std::int64_t>{};
        return {size(), beta.data(), lower.data(), upper.data(), gradient.data(), edges};
    }
    bool may_rise(int k) const { return beta[k] < upper[k]; }
    bool may_fall(int k) const { return beta[k] > lower[k]; }
};

void test_violation(bool coupled) {
    const Point point(500, 1, coupled);
    double lowest = 1e9, highest = -1e9;
    int n_free = 0;
    for (int k = 0; k < point.size(); ++k) {
        if (point.may_rise(k)) lowest = std::min(lowest, point.gradient[k]);
        if (point.may_fall(k)) highest = std::max(highest, point.gradient[k]);
        n_free += point.may_rise(k) && point.may_fall(k);
    }
    const Violation violation = measure_violation(point.state());
    CHECK(violation.value == (coupled ? highest - lowest : std::max(-lowest, highest)));
    CHECK(violation.n_free == n_free);
    CHECK(coupled ? violation.levels[0] > lowest && violation.levels[0] < highest : violation.levels.empty());
}

void test_choice(int n, std::int64_t size, bool coupled) {
    const Point point(n, 7 + n, coupled);
    const Violation violation = measure_violation(point.state());
    const double threshold = 0.1;
    const auto [members, complete] = choose_working_set(point.state(), violation, threshold, size, 0.5, 42);

    CHECK(std::is_sorted(members.begin(), members.end()));
    const std::set<int> chosen(members.begin(), members.end());
    CHECK(chosen.size() == members.size());
    CHECK(*chosen.begin() >= 0 && *chosen.rbegin() < n);
    CHECK(std::int64_t(members.size()) <= size + 2);  // the most violating pair comes on top

    int lowest = -1, highest = -1;
    std::int64_t n_wanted = 0;
    bool all_wanted = true;
    for (int k = 0; k < n; ++k) {
        const double G = point.gradient[k];
        if (point.may_rise(k) && (lowest < 0 || G < point.gradient[lowest])) lowest = k;
        if (point.may_fall(k) && (highest < 0 || G > point.gradient[highest])) highest = k;
        const bool free = point.may_rise(k) && point.may_fall(k);
        const bool violates = (point.may_rise(k) && G < violation.level - threshold) ||
                              (point.may_fall(k) && G > violation.level + threshold);
        if (!free && !violates) continue;
        ++n_wanted;
        all_wanted = all_wanted && chosen.count(k);
    }
    CHECK(chosen.count(lowest) && chosen.count(highest));
    CHECK(complete == (n_wanted <= size));
    CHECK(all_wanted == (n_wanted <= size) || n_wanted <= size + 2);

    CHECK(choose_working_set(point.state(), violation, threshold, size, 0.5, 42).members == members);
    if (!complete) CHECK(choose_working_set(point.state(), violation, threshold, size, 0.5, 43).members != members);
}

// Every variable fixed at zero: nothing may move, nothing is chosen, nothing is violated.
void test_nothing_moves() {
    Point point(20, 3, true);
    point.beta = point.lower = point.upper = std::vector<double>(20, 0.0);
    const Violation violation = measure_violation(point.state());
    CHECK(violation.value == 0.0);
    CHECK(choose_working_set(point.state(), violation, 0.1, 10, 0.5, 0).members.empty());
}

}  // namespace

void test_working_set() {
    for (bool coupled : {true, false}) {
        run("violation", [&] { test_violation(coupled); });
        for (int n : {2, 65, 1000})
            for (std::int64_t size : {2, 64, 256, 4096})
                run("working set of " + std::to_string(size) + " of " + std::to_string(n), [&] { test_choice(n, size, coupled); });
    }
    run("working set of fixed variables", test_nothing_moves);
}

}  // namespace tests
