// Pair steps: sequential minimal optimisation with second-order working pairs on one dense tile.
//
//     min over beta   1/2 (beta - beta0)' K (beta - beta0) + G' (beta - beta0)
//     s.t.            lower <= beta <= upper,   sum(beta) = sum(beta0) over each group
//
// given the gradient G at beta0. A pair step minimises over two variables of one group: beta_i += t, beta_j -= t, t > 0. Variable
// i may rise if beta_i < upper_i, j may fall if beta_j > lower_j. The point is optimal to `tolerance` when
//     violation = max_{j may fall} G_j - min_{i may rise} G_i <= tolerance   in each group.
// The pair (Fan, Chen, Lin 2005): i = argmin_{may rise} G; j = argmax_{may fall} (G_j - G_i)^2 / (K_ii + K_jj - 2 K_ij), the
// largest decrease of the objective among the pairs with that i. With two groups, the better one of their pairs moves.
//
// Without groups a step moves one variable: the one with the largest decrease G_k^2 / K_kk.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "held_out_chunks.hpp"
#include "maxmargin/team.hpp"
#include "maxmargin/tile_problem.hpp"
#include "minmax.hpp"
#include "tolerances.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

template <class T>
class PairSteps {
public:
    PairSteps(TileProblem<T>& problem, Team& team)
        : p(problem), team(team), K(problem.K), m(K.size()), coupled(!problem.edges.empty()), padded(in_chunks(m)),
          n_chunks(padded / chunk), held_out(problem), gradient_(padded), diagonal_(padded), free_now(m, 0), chunk_gain(n_chunks),
          chunk_violation(n_chunks), chunk_lowest(n_chunks, forbidden) {
        if (coupled)
            for (int g = 0; g < p.n_groups(); ++g) groups.emplace_back(p.edges[g], p.edges[g + 1], padded, held_out);
        else
            groups.emplace_back(0, 0, padded, held_out);
        for (int k = 0; k < padded; ++k) {  // padding cannot move
            gradient_[k] = k < m ? p.gradient[k] : 0.0;
            diagonal_[k] = k < m ? static_cast<float>(K.diagonal(k)) : 1.0f;
        }
        find_units();
        for (int k = 0; k < m; ++k) note_bounds(k);
        find_lowest();
    }

    // Choose the variables of the next step; returns the violation.
    double choose() { return coupled ? choose_pair() : choose_variable(); }
    // Make the step; false if it is below rounding.
    bool step() { return coupled ? step_pair() : step_variable(); }

    bool is_free(int k) const { return free_now[k]; }
    int n_free() const { return n_free_; }
    double* gradient() { return gradient_.data(); }
    float diagonal(int k) const { return diagonal_[k]; }
    int stride() const { return padded; }

    // Other steps move variables by `set` and the gradient themselves, and then call `find_lowest`.
    void set(int k, double value) {
        p.beta[k] = value;
        note_bounds(k);
    }
    // i = argmin_{may rise} G, in each group
    void find_lowest() { move_gradient(K.row(i), K.row(i), 0.0); }

    // Write the gradient, and what is known of the point besides its violation.
    void finish(TileResult& result) {
        held_out.catch_up(gradient_.data());
        std::copy_n(gradient_.data(), m, p.gradient);
        result.lowest_curvature = lowest_curvature;
        if (coupled && groups[0].lowest < forbidden) result.level = groups[0].lowest + 0.5 * groups[0].violation;
    }

private:
    // The variables of one equality constraint, and in which directions they may move. Other variables may not move, so that a
    // chunk with variables of two groups can be scanned for either group.
    struct Group {
        Group(int first, int last, int padded, const HeldOutChunks<T>& held_out)
            : last(last), first_chunk(first / chunk), end_chunk(in_chunks(last) / chunk), rise_bar(padded), may_fall(padded) {
            std::fill_n(rise_bar.data(), padded, forbidden);
            std::fill_n(may_fall.data(), padded, 0.0f);
            for (int c = first_chunk; c < end_chunk; ++c)
                if (!held_out.contains(c)) chunks.push_back(c);
        }
        int last;                    // variable
        int first_chunk, end_chunk;  // the chunks the variables are in
        std::vector<int> chunks;     // those that are not held out
        Buffer<double> rise_bar;     // added to G: zero for variables that may rise
        Buffer<float> may_fall;      // factor on violations
        int i = 0, j = 0;
        double lowest = forbidden, violation = 0.0;  // lowest: the gradient of i
        float gain = 0.0f;
    };

    void note_bounds(int k) {
        const bool rises = p.beta[k]<p.upper[k], falls = p.beta[k]> p.lower[k];
        n_free_ += (rises && falls) - free_now[k];
        free_now[k] = rises && falls;
        Group& g = k < groups[0].last ? groups[0] : groups.back();
        g.rise_bar[k] = rises ? 0.0 : forbidden;
        g.may_fall[k] = falls ? static_cast<float>(unit) : 0.0f;
    }

    // Gains are squares of violations over curvatures, in float32. In units in which the gradients are about one, and with
    // curvatures not too far below the largest, they stay within its range.
    void find_units() {
        double largest = 0.0;
        float widest = 0.0f, lowest = 0.0f;
        for (int k = 0; k < m; ++k) {
            largest = std::max(largest, std::abs(gradient_[k]));
            widest = std::max(widest, std::abs(diagonal_[k]));
            lowest = std::min(lowest, diagonal_[k]);
        }
        unit = largest > 0.0 ? 1.0 / largest : 1.0;
        floor_of_all = std::max(curvature_floor_of_tile * widest, least_curvature) - 4.0f * curvature_floor * lowest;  // positive
    }

    double floor_of(double diagonals) const { return curvature_floor * std::max(diagonals, 0.0) + floor_of_all; }

    // G += t (a - b), and the new i of each group on the way
    void move_gradient(const T* a, const T* b, double t) {
        int moved = 0;  // number of chunks moved
        for (Group& g : groups) {
            team.share(static_cast<int>(g.chunks.size()), [&](int begin, int end) {
                alignas(64) double barred[chunk];
                for (int k = begin; k < end; ++k) {
                    const int c = g.chunks[k];
                    chunk_lowest[c] = move_chunk(g, c * chunk, a, b, c < moved ? 0.0 : t, barred);
                }
            });
            moved = g.end_chunk;
            const auto first = chunk_lowest.begin();
            const int c = static_cast<int>(std::min_element(first + g.first_chunk, first + g.end_chunk) - first);
            g.lowest = g.first_chunk < g.end_chunk ? chunk_lowest[c] : forbidden;
            if (g.lowest >= forbidden) continue;
            alignas(64) double barred[chunk];
            move_chunk(g, c * chunk, a, b, 0.0, barred);  // again, because other chunks have overwritten its values
            g.i = c * chunk + place_of(barred, g.lowest);
        }
    }

    // The next two functions are kept out of line: inlined, their pointers lose `__restrict`, and the loops are not vectorised.
    // Their ratings are stored for one chunk only, which costs no memory traffic.
    [[gnu::noinline]] double move_chunk(Group& g, int at, const T* row_a, const T* row_b, double t, double* __restrict barred) {
        const T* __restrict a = row_a + at, * __restrict b = row_b + at;
        const double* __restrict bar = g.rise_bar.data() + at;
        double* __restrict G = gradient_.data() + at;
        double lowest = forbidden;
#pragma omp simd reduction(min : lowest)
        for (int k = 0; k < chunk; ++k) {
            G[k] += t * static_cast<double>(a[k] - b[k]);
            barred[k] = G[k] + bar[k];
            lowest = smaller(lowest, barred[k]);
        }
        return lowest;
    }

    [[gnu::noinline]] void rate_chunk(Group& group, int c, const T* row_i, float* __restrict gain) {
        const int at = c * chunk;
        const double g = group.lowest;
        const float k_ii = diagonal_[group.i], floor = floor_of_all + curvature_floor * k_ii;
        const T* __restrict K_i = row_i + at;
        const double* __restrict G = gradient_.data() + at;
        const float* __restrict may_fall = group.may_fall.data() + at, * __restrict k_jj = diagonal_.data() + at;
        float best = 0.0f, worst = 0.0f;
#pragma omp simd reduction(max : best, worst)
        for (int k = 0; k < chunk; ++k) {
            const float excess = larger(static_cast<float>(G[k] - g), 0.0f) * may_fall[k];
            // in T: a float64 entry may be too small for a normal float, and arithmetic with the others takes many times as long
            const T met = static_cast<T>(k_ii + k_jj[k]) - T(2) * K_i[k];
            const float curvature = larger(static_cast<float>(met), floor + curvature_floor * k_jj[k]);
            gain[k] = excess * excess / curvature;
            best = larger(best, gain[k]);
            worst = larger(worst, excess);
        }
        chunk_gain[c] = best;
        chunk_violation[c] = worst;
    }

    double choose_pair() {
        const Group* best = nullptr;
        double worst = 0.0;
        for (Group& g : groups) {
            g.violation = 0.0;
            if (g.lowest >= forbidden) continue;  // no variable may rise
            const T* row_i = K.row(g.i);
            team.share(static_cast<int>(g.chunks.size()), [&](int begin, int end) {
                alignas(64) float gains[chunk];
                for (int k = begin; k < end; ++k) rate_chunk(g, g.chunks[k], row_i, gains);
            });
            const auto first = chunk_gain.begin();
            const int c = static_cast<int>(std::max_element(first + g.first_chunk, first + g.end_chunk) - first);
            g.gain = chunk_gain[c];
            alignas(64) float gains[chunk];
            rate_chunk(g, c, row_i, gains);
            g.j = c * chunk + place_of(gains, g.gain);
            g.violation =
                *std::max_element(chunk_violation.begin() + g.first_chunk, chunk_violation.begin() + g.end_chunk) / unit;
            if (!best || g.gain > best->gain) best = &g;
            worst = std::max(worst, g.violation);
        }
        if (best) i = best->i, j = best->j;
        return worst;
    }

    bool step_pair() {
        const T *K_i = K.row(i), *K_j = K.row(j);
        const double diagonals = static_cast<double>(K_i[i]) + K_j[j], met = diagonals - 2.0 * K_i[j];
        const double curvature = std::max(met, floor_of(diagonals));
        if (met < 0.0) lowest_curvature = std::min(lowest_curvature, met / std::max(diagonals, floor_of(diagonals)));
        const double room_i = p.upper[i] - p.beta[i], room_j = p.beta[j] - p.lower[j];
        const double t = std::min({(gradient_[j] - gradient_[i]) / curvature, room_i, room_j});
        if (!(t > 0.0)) return false;
        set(i, t == room_i ? p.upper[i] : p.beta[i] + t);
        set(j, t == room_j ? p.lower[j] : p.beta[j] - t);
        move_gradient(K_i, K_j, t);
        held_out.note_step(i, t);
        held_out.note_step(j, -t);
        return true;
    }

    double choose_variable() {
        double worst = 0.0, best = -1.0;
        for (int k = 0; k < m; ++k) {
            const double G = gradient_[k];
            const double slope = G < 0 ? (p.beta[k] < p.upper[k] ? -G : 0.0) : (p.beta[k] > p.lower[k] ? G : 0.0);
            const double gain = slope * slope / std::max(diagonal_[k], least_curvature);
            worst = std::max(worst, slope);
            if (gain > best) best = gain, i = k;
        }
        return worst;
    }

    bool step_variable() {
        const T* K_i = K.row(i);
        const double curvature = std::max(static_cast<double>(K_i[i]), static_cast<double>(least_curvature));
        if (K_i[i] < 0) lowest_curvature = -1.0;
        const double old = p.beta[i];
        set(i, std::clamp(old - gradient_[i] / curvature, p.lower[i], p.upper[i]));
        const double t = p.beta[i] - old;
        double* G = gradient_.data();
#pragma omp simd
        for (int k = 0; k < m; ++k) G[k] += t * K_i[k];
        return t != 0.0;
    }

    TileProblem<T>& p;
    Team& team;
    const Tile<T>& K;
    const int m;
    const bool coupled;
    const int padded, n_chunks;
    HeldOutChunks<T> held_out;
    std::vector<Group> groups;  // without groups: one that is empty
    Buffer<double> gradient_;
    Buffer<float> diagonal_;
    std::vector<signed char> free_now;
    std::vector<float> chunk_gain, chunk_violation;
    std::vector<double> chunk_lowest;
    int i = 0, j = 0, n_free_ = 0;  // i and j: the pair (or variable) to move
    double unit = 1.0;              // factor on violations in the rating of pairs
    float floor_of_all = 0.0f;      // least curvature of every pair
    double lowest_curvature = 0.0;
};

}  // namespace maxmargin::MAXMARGIN_LEVEL
