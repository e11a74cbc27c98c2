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
    std::vector<std::int64_t> edges;

    Point(int n, unsigned seed, int n_groups) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<double> uniform(0.0, 1.0);
        for (int k = 0; k < n; ++k) {
            const bool positive = random() % 2;
            lower.push_back(positive ? 0.0 : -1.0);
            upper.push_back(positive ? 1.0 : 0.0);
            const int where = random() % 3;
            beta.push_back(where == 0 ? lower[k] : where == 1 ? upper[k] : lower[k] + uniform(random));
            gradient.push_back(uniform(random) - 0.5 + (n_groups == 2 && k >= n / 3 ? 3.0 : 0.0));  // groups far apart
        }
        if (n_groups == 1) edges = {0, n};
        if (n_groups == 2) edges = {0, n / 3, n};
    }
    int size() const { return int(beta.size()); }
    DualState state() const { return {size(), beta.data(), lower.data(), upper.data(), gradient.data(), edges}; }
    bool may_rise(int k) const { return beta[k] < upper[k]; }
    bool may_fall(int k) const { return beta[k] > lower[k]; }

    // The variables of one group (all variables without groups): the one that may rise with the lowest gradient, and the one that
    // may fall with the highest.
    struct Group {
        int first, last, lowest = -1, highest = -1, n_free = 0;
    };
    std::vector<Group> groups() const {
        std::vector<Group> all;
        if (edges.empty()) all.push_back({0, size()});
        for (std::size_t g = 0; g + 1 < edges.size(); ++g) all.push_back({int(edges[g]), int(edges[g + 1])});
        for (Group& group : all)
            for (int k = group.first; k < group.last; ++k) {
                if (may_rise(k) && (group.lowest < 0 || gradient[k] < gradient[group.lowest])) group.lowest = k;
                if (may_fall(k) && (group.highest < 0 || gradient[k] > gradient[group.highest])) group.highest = k;
                group.n_free += may_rise(k) && may_fall(k);
            }
        return all;
    }
};

void test_violation(int n_groups) {
    const Point point(500, 1, n_groups);
    const Violation violation = measure_violation(point.state());
    CHECK(int(violation.levels.size()) == n_groups);
    double worst = 0.0;
    std::int64_t n_free = 0;
    const auto groups = point.groups();
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const double lowest = point.gradient[groups[g].lowest], highest = point.gradient[groups[g].highest];
        worst = std::max(worst, n_groups ? highest - lowest : std::max(-lowest, highest));
        n_free += groups[g].n_free;
        if (n_groups) CHECK(violation.levels[g] > lowest && violation.levels[g] < highest);
    }
    CHECK(violation.value == worst);
    CHECK(violation.n_free == n_free);
}

void test_choice(int n, std::int64_t size, int n_groups) {
    const Point point(n, 7 + n, n_groups);
    const Violation violation = measure_violation(point.state());
    const double threshold = 0.1;
    const auto [members, complete] = choose_working_set(point.state(), violation, threshold, size, 0.5, 42);

    CHECK(std::is_sorted(members.begin(), members.end()));
    const std::set<int> chosen(members.begin(), members.end());
    CHECK(chosen.size() == members.size());
    CHECK(*chosen.begin() >= 0 && *chosen.rbegin() < n);
    const auto groups = point.groups();
    const auto pairs = std::int64_t(groups.size());
    CHECK(std::int64_t(members.size()) <= size + 2 * pairs);  // the most violating pair of each group comes on top

    std::int64_t n_wanted = 0;
    bool all_wanted = true;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const double level = n_groups ? violation.levels[g] : 0.0;
        if (groups[g].lowest >= 0) CHECK(chosen.count(groups[g].lowest));
        if (groups[g].highest >= 0) CHECK(chosen.count(groups[g].highest));
        for (int k = groups[g].first; k < groups[g].last; ++k) {
            const double G = point.gradient[k];
            const bool free = point.may_rise(k) && point.may_fall(k);
            const bool violates = (point.may_rise(k) && G < level - threshold) || (point.may_fall(k) && G > level + threshold);
            if (!free && !violates) continue;
            ++n_wanted;
            all_wanted = all_wanted && chosen.count(k);
        }
    }
    CHECK(complete == (n_wanted <= size));
    CHECK(all_wanted == (n_wanted <= size) || n_wanted <= size + 2 * pairs);
    if (complete) CHECK(std::int64_t(members.size()) <= n_wanted + n_wanted / 2 + 2 * pairs);  // at most half as many more

    CHECK(choose_working_set(point.state(), violation, threshold, size, 0.5, 42).members == members);
    if (!complete) CHECK(choose_working_set(point.state(), violation, threshold, size, 0.5, 43).members != members);
}

// One group has nothing to move; the other is treated as if it were alone.
void test_a_group_that_is_fixed() {
    Point point(300, 5, 2);
    for (int k = 0; k < 100; ++k) point.beta[k] = point.lower[k] = point.upper[k] = 0.0;
    const Violation violation = measure_violation(point.state());
    const auto groups = point.groups();
    CHECK(violation.value == point.gradient[groups[1].highest] - point.gradient[groups[1].lowest]);
    const auto members = choose_working_set(point.state(), violation, 0.1, 64, 0.5, 0).members;
    CHECK(!members.empty() && members.front() >= 100);
}

// Every variable fixed at zero: nothing may move, nothing is chosen, nothing is violated.
void test_nothing_moves() {
    Point point(20, 3, 1);
    point.beta = point.lower = point.upper = std::vector<double>(20, 0.0);
    const Violation violation = measure_violation(point.state());
    CHECK(violation.value == 0.0);
    CHECK(choose_working_set(point.state(), violation, 0.1, 10, 0.5, 0).members.empty());
}

}  // namespace

void test_working_set() {
    for (int n_groups : {0, 1, 2}) {
        const std::string of = ", " + std::to_string(n_groups) + " groups";
        run("violation" + of, [&] { test_violation(n_groups); });
        for (int n : {2, 65, 1000})
            for (std::int64_t size : {2, 64, 256, 4096})
                run("working set of " + std::to_string(size) + " of " + std::to_string(n) + of,
                    [&] { test_choice(n, size, n_groups); });
    }
    run("working set of fixed variables", test_nothing_moves);
    run("working set with a group of fixed variables", test_a_group_that_is_fixed);
}

}  // namespace tests
