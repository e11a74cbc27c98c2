// Steps along several directions: that of a pair, d_0 = e_i - e_j, and those of the two steps before.
//
//     min over t   1/2 |t_0 d_0 + t_1 d_1 + t_2 d_2|_K^2 - t_0 s        (s > 0 is how fast the objective falls along d_0)
//
// As long as the steps before ended inside their boxes, they ended where the slopes along d_1 and d_2 are zero, and so does this
// one. So t solves a system of three equations, whose matrix is known: what the old directions do to the gradients, K d, is at
// hand, and costs no further kernel row. If the step would leave a box, the oldest direction is left out, then both.
//
// Lengths along several directions are rounded to the type of the kernel matrix: what matters is that the duals and the gradients
// see the same ones.
#pragma once
#include <algorithm>
#include <array>

#include "tolerances.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

// Whether a step reaches a bound, or is short of it by rounding only: then it ends there, not beside it.
inline bool reaches(double step, double room) { return step >= (1.0 - rounding_of_newton) * room; }

template <class T>
class RecentDirections {
public:
    struct Room {  // of variable k: how far it may move
        int k = -1;
        double up = 0.0, down = 0.0;
    };

    // How many of the old directions have the slope zero.
    int known() const { return known_; }

    // Find the step for a new direction, along which variable i rises and j falls, given s, d_0'K d_0 and the products
    // `across` = d_0'K d_1, d_0'K d_2. A direction that is not `curved` is taken by itself, and is not remembered.
    void minimise(const Room& i, const Room& j, double s, double curvature, bool curved, const std::array<double, 2>& across) {
        if (known_ > 0) std::copy_backward(rooms_.begin(), rooms_.begin() + 4, rooms_.end());
        rooms_[0] = i, rooms_[1] = j;
        curvatures_ = {curvature, curvatures_[0], curvatures_[1]};
        with_last_ = across[0];
        if (known_ > 0 && curved) {
            meet_ = {meets(2), meets(4), meet_[0]};
            if (along_three(s, across) || along_two(s, across)) return;
        }
        along_one(s, curved);
    }

    double length(int direction) const { return lengths_[direction]; }
    bool is_plain() const { return used_ < 2; }       // along the new direction only
    bool is_forgotten() const { return used_ == 0; }  // it ends at a bound, or is not curved

    // Call `visit(k, by)` for the variables that a step along several directions moves, for each once.
    template <class Visit>
    void visit_moves(Visit visit) const {
        for (int a = 0; a < 2 * used_; ++a)
            if (is_first(a)) visit(rooms_[a].k, moves_[a]);
    }

    // The step has been made.
    void advance() {
        known_ = std::min(used_, 2), with_each_other_ = with_last_;
        for (int a = 0; a < 2 * known_; ++a) rooms_[a].up -= moves_[a], rooms_[a].down += moves_[a];
    }

private:
    // Directions that are nearly dependent would need long steps: the least determinant, relative to the product of curvatures.
    static constexpr double least_determinant = 1e-3;

    bool along_three(double s, const std::array<double, 2>& across) {
        if (known_ < 2) return false;
        const auto& [c0, c1, c2] = curvatures_;
        const double minor = c1 * c2 - with_each_other_ * with_each_other_;
        const double first = with_each_other_ * across[1] - across[0] * c2;
        const double second = across[0] * with_each_other_ - c1 * across[1];
        const double determinant = c0 * minor + across[0] * first + across[1] * second;
        if (!(determinant > least_determinant * c0 * c1 * c2)) return false;
        const double scale = s / determinant;
        return stays_inside({T(scale * minor), T(scale * first), T(scale * second)}, 3);
    }

    bool along_two(double s, const std::array<double, 2>& across) {
        const double c0 = curvatures_[0], c1 = curvatures_[1], determinant = c0 * c1 - across[0] * across[0];
        if (!(determinant > least_determinant * c0 * c1)) return false;
        const double scale = s / determinant;
        return stays_inside({T(scale * c1), T(-scale * across[0]), T(0)}, 2);
    }

    void along_one(double s, bool curved) {
        const double best = s / curvatures_[0], end = std::min(rooms_[0].up, rooms_[1].down);
        const bool ends = reaches(best, end);
        used_ = curved && !ends ? 1 : 0;
        lengths_ = {ends ? end : best, 0.0, 0.0};
        moves_ = {lengths_[0], -lengths_[0]};
    }

    bool stays_inside(const std::array<T, 3>& lengths, int n) {
        std::copy(lengths.begin(), lengths.end(), lengths_.begin());
        used_ = n;
        for (int d = 0; d < 3; ++d) moves_[2 * d] = lengths[d], moves_[2 * d + 1] = -lengths[d];
        if (share_variables())
            for (int a = 0; a < 2 * n; ++a) {
                moves_[a] = 0.0;
                for (int b = 0; b < 2 * n; ++b)
                    if (rooms_[b].k == rooms_[a].k) moves_[a] += b % 2 ? -lengths[b / 2] : lengths[b / 2];
            }
        bool inside = true;
        for (int a = 0; a < 2 * n; ++a) inside &= !reaches(moves_[a], rooms_[a].up) && !reaches(-moves_[a], rooms_[a].down);
        return inside;
    }

    // Whether a direction that begins at the given room moves a variable of the new one, and whether any two of them do.
    bool meets(int first) const {
        const auto is_new = [&](int k) { return k == rooms_[0].k || k == rooms_[1].k; };
        return is_new(rooms_[first].k) || is_new(rooms_[first + 1].k);
    }
    bool share_variables() const { return meet_[0] || (used_ == 3 && (meet_[1] || meet_[2])); }
    bool is_first(int a) const {
        return !share_variables() ||
               std::none_of(rooms_.begin(), rooms_.begin() + a, [&](const Room& room) { return room.k == rooms_[a].k; });
    }

    std::array<Room, 6> rooms_;      // of i and j, for each direction
    std::array<double, 6> moves_{};  // of these variables
    std::array<double, 3> curvatures_{}, lengths_{};
    std::array<bool, 3> meet_{};  // the new direction and d_1, it and d_2, d_1 and d_2: have a variable in common
    double with_last_ = 0.0, with_each_other_ = 0.0;  // d_0'K d_1, d_1'K d_2
    int used_ = 0;                                    // directions along which the step goes and ends inside all boxes
    int known_ = 0;
};

}  // namespace maxmargin::MAXMARGIN_LEVEL
