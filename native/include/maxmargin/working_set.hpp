// The choice of the variables of the next tile.
#pragma once
#include <cstdint>
#include <vector>

namespace maxmargin {

// The state of a dual problem: n variables in their box, the gradient G of the objective, and the edges of the consecutive groups
// of variables with a common sum (empty if there are no groups).
struct DualState {
    std::int64_t size;
    const double *beta, *lower, *upper, *gradient;
    std::vector<std::int64_t> edges;
};

// How far a point is from optimal. A variable may rise if beta < upper, fall if beta > lower. `value` is max_{fall} G -
// min_{rise} G in the worst group, or without groups the largest slope into the box. `levels` estimate the value of G on the free
// variables of each group at the optimum (for one group, minus the bias): its median over the free variables now.
struct Violation {
    double value = 0.0;
    std::vector<double> levels;
    std::int64_t n_free = 0;
};
Violation measure_violation(const DualState& state);

// The variables of the next tile, sorted. `complete` says that no free variable and no violator was left out.
struct WorkingSet {
    std::vector<std::int32_t> members;
    bool complete;
};

// A working set of at most about `size` variables: the free ones, and violators (variables whose G is on the wrong side of the
// level of their group by more than `threshold`). Where there are too many violators they are drawn at random, not taken from the
// top: the worst ones resemble each other, and the tile of a random draw says more about the whole problem. Where all fit, the
// variables nearest to becoming violators are added, up to the share `extra_share` of the set. The most violating pair of each
// group is always in the set, which makes the decomposition converge.
WorkingSet choose_working_set(const DualState& state, const Violation& violation, double threshold, std::int64_t size,
                              double extra_share, std::uint64_t seed);

}  // namespace maxmargin
