#include "maxmargin/working_set.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace maxmargin {
namespace {

constexpr double share_for_free = 0.75;  // share of a working set for free variables when not all of them fit

constexpr double infinity = std::numeric_limits<double>::infinity();

// The groups as ranges; one range of all variables if there are no groups.
std::vector<std::pair<std::int64_t, std::int64_t>> groups_of(const DualState& s) {
    if (s.edges.empty()) return {{0, s.size}};
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (std::size_t g = 0; g + 1 < s.edges.size(); ++g) ranges.push_back({s.edges[g], s.edges[g + 1]});
    return ranges;
}

bool may_rise(const DualState& s, std::int64_t k) { return s.beta[k] < s.upper[k]; }
bool may_fall(const DualState& s, std::int64_t k) { return s.beta[k] > s.lower[k]; }

double median(std::vector<double>& values) {
    const auto middle = values.begin() + values.size() / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// SplitMix64: a sequence of well-mixed numbers that depends on nothing but the seed.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t below(std::uint64_t bound) { return next() % bound; }

private:
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    std::uint64_t state_;
};

// Keep `count` of the candidates, drawn at random.
void draw(std::vector<std::int32_t>& candidates, std::int64_t count, Random& random) {
    if (static_cast<std::int64_t>(candidates.size()) <= count) return;
    for (std::int64_t a = 0; a < count; ++a) std::swap(candidates[a], candidates[a + random.below(candidates.size() - a)]);
    candidates.resize(count);
}

}  // namespace

Violation measure_violation(const DualState& s) {
    Violation worst;
    for (const auto& [first, last] : groups_of(s)) {
        double lowest = infinity, highest = -infinity;
        std::vector<double> free;
        for (std::int64_t k = first; k < last; ++k) {
            const bool rise = may_rise(s, k), fall = may_fall(s, k);
            if (rise) lowest = std::min(lowest, s.gradient[k]);
            if (fall) highest = std::max(highest, s.gradient[k]);
            if (rise && fall) free.push_back(s.gradient[k]);
        }
        worst.n_free += static_cast<std::int64_t>(free.size());
        if (s.edges.empty()) return {std::max({0.0, -lowest, highest}), {}, worst.n_free};
        const bool can_move = lowest < infinity && highest > -infinity;
        if (can_move) worst.value = std::max(worst.value, highest - lowest);
        const double edge = can_move              ? 0.5 * (lowest + highest)
                            : lowest < infinity   ? lowest
                            : highest > -infinity ? highest
                                                  : 0.0;
        worst.levels.push_back(free.empty() ? edge : median(free));
    }
    return worst;
}

WorkingSet choose_working_set(const DualState& s, const Violation& violation, double threshold, std::int64_t size,
                              double extra_share, std::uint64_t seed) {
    std::vector<std::int32_t> free, violators, extremes;
    std::vector<std::pair<double, std::int32_t>> next;  // distance from being a violator
    const auto groups = groups_of(s);
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const double level = s.edges.empty() ? 0.0 : violation.levels[g];
        std::int32_t lowest = -1, highest = -1;
        for (std::int64_t k = groups[g].first; k < groups[g].second; ++k) {
            const double G = s.gradient[k];
            const bool rise = may_rise(s, k), fall = may_fall(s, k);
            const auto index = static_cast<std::int32_t>(k);
            if (rise && (lowest < 0 || G < s.gradient[lowest])) lowest = index;
            if (fall && (highest < 0 || G > s.gradient[highest])) highest = index;
            if (rise && fall)
                free.push_back(index);
            else if ((rise && G < level - threshold) || (fall && G > level + threshold))
                violators.push_back(index);
            else if (rise || fall)
                next.push_back({rise ? G - level : level - G, index});
        }
        if (lowest >= 0) extremes.push_back(lowest);
        if (highest >= 0) extremes.push_back(highest);
    }
    const auto n_free = static_cast<std::int64_t>(free.size()), n_violators = static_cast<std::int64_t>(violators.size());
    const bool complete = n_free + n_violators <= size;
    Random random(seed);
    const auto for_free = static_cast<std::int64_t>(share_for_free * static_cast<double>(size));
    draw(free, std::max(for_free, size - n_violators), random);
    draw(violators, size - static_cast<std::int64_t>(free.size()), random);

    std::vector<std::int32_t> chosen = std::move(free);
    chosen.insert(chosen.end(), violators.begin(), violators.end());
    if (complete) {
        const auto fill = static_cast<std::int64_t>(extra_share * static_cast<double>(n_free + n_violators));
        const auto room = std::min({size - n_free - n_violators, fill, static_cast<std::int64_t>(next.size())});
        if (room < static_cast<std::int64_t>(next.size())) std::nth_element(next.begin(), next.begin() + room, next.end());
        for (std::int64_t a = 0; a < room; ++a) chosen.push_back(next[a].second);
    }
    chosen.insert(chosen.end(), extremes.begin(), extremes.end());
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    return {std::move(chosen), complete};
}

}  // namespace maxmargin
