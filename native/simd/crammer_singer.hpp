// The inner solver of Crammer and Singer's machine: sequential minimisation on one dense tile, one sample at a time (Keerthi et
// al. 2008).
//
// Shares. Put S = upper - B. The shares S_mi >= 0 of sample i in the rows m add up to C_i = sum_m upper_mi: a simplex for each
// sample. A point is optimal if every sample has its shares where its gradient is highest; the *violation* of sample i is
//     max_m G_mi - min_{m: S_mi > 0} G_mi.
//
// One sample. With a = K_ii and the *ceilings* D_m = G_m + a S_m, which do not change while only this sample moves, the objective
// is 1/2 a |S|^2 - D'S over the simplex, and its minimum is at
//     S_m = max(0, D_m - theta) / a   with theta such that   sum_m max(0, D_m - theta) = a C_i.
// Lower theta from the highest ceiling past one after the other, until the sum is large enough.
//
// Pairs. Of many rows a sample has a share in two or three, and few others have a gradient that comes near. So steps are taken
// over some pairs (row, sample) only: those with a share, and for each sample the other row with the highest gradient. Row m keeps
// the gradients of its own samples side by side, and the kernel values between them, copied from the tile when they are first
// needed. When the chosen pairs are done, the others are told, and pairs are chosen anew.
//
// Order. The samples with the largest violations first, which takes several times fewer steps than to go from one to the next:
// *sweeps* over the *hot* samples pass over those with less than a part of the worst violation among them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "inner_smo.hpp"
#include "maxmargin/joint_tile.hpp"
#include "maxmargin/memory.hpp"
#include "minmax.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr int contenders = 2;         // rows of each sample that take part besides those in which it has a share
constexpr double hot = 0.1;           // of the worst violation: a sample with more is swept over
constexpr double worth_a_step = 0.7;  // of the worst violation in the last sweep
constexpr double cooled = 0.2;        // of the worst violation: when the hot samples are below, all are looked at again

template <class T>
class InnerCrammerSinger {
public:
    explicit InnerCrammerSinger(JointTileProblem<T>& problem)
        : p(problem), K(problem.K), m(K.size()), n_rows(problem.n_rows), starts(m + 1, 0), violations(m), ceilings(n_rows),
          shares(n_rows), order(n_rows) {}

    TileResult solve() {
        while ((result.violation = worst_of_all_pairs()) > p.tolerance && result.steps < p.max_steps) {
            choose_pairs();
            lay_out_rows();
            while (sweep_over_hot_samples()) {
            }
            tell_all_pairs();
        }
        return result;
    }

private:
    struct Pair {
        int row, slot;      // slot: where its gradient is
        double share, bar;  // bar: 0 if there is a share, else `forbidden`
    };
    struct List {  // the pairs of a row
        std::vector<int> samples;
        int first = 0;          // their first slot
        bool everyone = false;  // the slots are those of all samples, and a row of the tile serves as it is
        std::size_t block = 0;  // where the kernel values between the samples are
        int size() const { return static_cast<int>(samples.size()); }
    };

    std::size_t place(int row, int i) const { return static_cast<std::size_t>(row) * m + i; }

    double worst_of_all_pairs() const {
        std::vector<double> highest(m, -forbidden), lowest(m, forbidden);
        for (int c = 0; c < n_rows; ++c)
            for (int i = 0; i < m; ++i) {
                const double G = p.gradient[place(c, i)];
                highest[i] = larger(highest[i], G);
                if (p.upper[place(c, i)] > p.beta[place(c, i)]) lowest[i] = smaller(lowest[i], G);
            }
        double worst = 0.0;
        for (int i = 0; i < m; ++i) worst = larger(worst, highest[i] - lowest[i]);
        return worst;
    }

    // In a tie of the highest gradients, as there is at the start, not the same row for all samples.
    void choose_pairs() {
        lists.assign(n_rows, {});
        pairs.clear();
        total.assign(m, 0.0);
        moved.assign(m, 0);
        for (int i = 0; i < m; ++i) {
            int contender = -1;
            for (int k = 0; k < n_rows; ++k) {
                const int c = (i + k) % n_rows;
                total[i] += p.upper[place(c, i)];
                if (p.upper[place(c, i)] > p.beta[place(c, i)]) continue;
                if (contender < 0 || p.gradient[place(c, i)] > p.gradient[place(contender, i)]) contender = c;
            }
            for (int c = 0; c < n_rows; ++c) {
                const double share = p.upper[place(c, i)] - p.beta[place(c, i)];
                if (share <= 0.0 && c != contender) continue;
                pairs.push_back({c, lists[c].size(), share, share > 0.0 ? 0.0 : forbidden});
                lists[c].samples.push_back(i);
            }
            starts[i + 1] = static_cast<int>(pairs.size());
        }
    }

    // Gradients row by row; where a row has most of the samples it gets all of them, and needs no copies of kernel values.
    void lay_out_rows() {
        int slots = 0;
        std::size_t entries = 0;
        for (List& list : lists) {
            list.first = slots, list.block = entries;
            list.everyone = 2 * list.size() > m;
            slots += list.everyone ? m : list.size();
            entries += list.everyone ? 0 : static_cast<std::size_t>(list.size()) * list.size();
        }
        gradient.assign(slots, 0.0);
        copied.assign(slots, 0);
        if (copies.size() < entries) copies = Buffer<T>(entries);
        for (int i = 0; i < m; ++i)
            for (int q = starts[i]; q < starts[i + 1]; ++q) {
                Pair& pair = pairs[q];
                const List& list = lists[pair.row];
                pair.slot = list.first + (list.everyone ? i : pair.slot);
                gradient[pair.slot] = p.gradient[place(pair.row, i)];
            }
    }

    // B and the gradient of all pairs, after the chosen ones have moved.
    void tell_all_pairs() {
        for (int i = 0; i < m; ++i)
            for (int q = starts[i]; moved[i] && q < starts[i + 1]; ++q) {
                double& beta = p.beta[place(pairs[q].row, i)];
                const double after = p.upper[place(pairs[q].row, i)] - pairs[q].share;
                if (after != beta) move_gradient(p.gradient + place(pairs[q].row, 0), K.row(i), after - beta, m);
                beta = after;
            }
    }

    // Sweep until the hot samples have cooled down; false if there is nothing to do.
    bool sweep_over_hot_samples() {
        double worst = 0.0;
        for (int i = 0; i < m; ++i) worst = larger(worst, violations[i] = violation_of(i));
        if (worst <= p.tolerance || result.steps >= p.max_steps) return false;
        hot_samples.clear();
        for (int i = 0; i < m; ++i)
            if (violations[i] > hot * worst) hot_samples.push_back(i);
        const double goal = std::max(p.tolerance, cooled * worst);
        while (worst > goal && result.steps < p.max_steps) {
            const double worth = std::max(goal, worth_a_step * worst);
            worst = goal;
            for (int i : hot_samples) {
                const double violation = violation_of(i);
                worst = std::max(worst, std::min(violation, worth));
                if (violation <= worth || result.steps >= p.max_steps) continue;
                minimise_over(i);
                ++result.steps;
            }
        }
        return true;
    }

    double violation_of(int i) const {
        double highest = -forbidden, lowest = forbidden;
        for (int q = starts[i]; q < starts[i + 1]; ++q) {
            const double G = gradient[pairs[q].slot];
            highest = larger(highest, G);
            lowest = smaller(lowest, G + pairs[q].bar);
        }
        return larger(highest - lowest, 0.0);  // without any share nothing can move
    }

    void minimise_over(int i) {
        Pair* own = pairs.data() + starts[i];
        const int count = starts[i + 1] - starts[i];
        const double met = static_cast<double>(K.row(i)[i]);
        if (met < 0.0) result.lowest_curvature = -1.0;
        const double curvature = std::max(met, static_cast<double>(curvature_floor));
        for (int r = 0; r < count; ++r) ceilings[r] = gradient[own[r].slot] + curvature * own[r].share;
        const double theta = threshold(count, curvature * total[i]);
        double rest = total[i];
        for (int r = 0; r < count; ++r) {
            shares[r] = std::max(0.0, ceilings[r] - theta) / curvature;
            if (r != order[0]) rest -= shares[r];
        }
        shares[order[0]] = std::max(0.0, rest);  // the largest; it takes what rounding leaves of the sum
        for (int r = 0; r < count; ++r) {
            const double change = own[r].share - shares[r];
            if (change == 0.0) continue;
            const List& list = lists[own[r].row];
            move_gradient(gradient.data() + list.first, kernel_row(list, own[r].slot, i), change, list.everyone ? m : list.size());
            own[r].share = shares[r];
            own[r].bar = shares[r] > 0.0 ? 0.0 : forbidden;
        }
        moved[i] = 1;
    }

    // theta for the first `count` ceilings; order[0] is the highest of them afterwards.
    double threshold(int count, double mass) {
        for (int r = 0; r < count; ++r) order[r] = r;
        std::sort(order.begin(), order.begin() + count, [&](int a, int b) { return ceilings[a] > ceilings[b]; });
        double sum = ceilings[order[0]] - mass, theta = sum;
        for (int r = 1; r < count && ceilings[order[r]] > theta; ++r) {
            sum += ceilings[order[r]];
            theta = sum / (r + 1);
        }
        return theta;
    }

    // Kernel values between sample i, which is in the list at `slot`, and the samples of the list.
    const T* kernel_row(const List& list, int slot, int i) {
        const T* row = K.row(i);
        if (list.everyone) return row;
        T* copy = copies.data() + list.block + static_cast<std::size_t>(slot - list.first) * list.size();
        if (!copied[slot]) {
            for (int k = 0; k < list.size(); ++k) copy[k] = row[list.samples[k]];
            copied[slot] = 1;
        }
        return copy;
    }

    // Kept out of line: inlined, the pointers lose `__restrict`, and the loop is not vectorised.
    [[gnu::noinline]] static void move_gradient(double* __restrict G, const T* __restrict row, double t, int size) {
#pragma omp simd
        for (int k = 0; k < size; ++k) G[k] += t * static_cast<double>(row[k]);
    }

    JointTileProblem<T>& p;
    const Tile<T>& K;
    const int m, n_rows;
    TileResult result;
    std::vector<List> lists;
    std::vector<Pair> pairs;  // sample by sample: those of i from starts[i] on
    std::vector<int> starts, hot_samples;
    std::vector<double> total, gradient, violations;
    std::vector<char> moved, copied;
    Buffer<T> copies;
    std::vector<double> ceilings, shares;  // of the sample that moves
    std::vector<int> order;
};

template <class T>
TileResult solve_joint_tile(JointTileProblem<T>& problem) {
    return InnerCrammerSinger<T>(problem).solve();
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
