// The inner solver: sequential minimal optimisation with second-order working pairs on one dense tile, and an active-set Newton
// method over the free variables whenever the pair steps since the last one have cost a few times as much as it does.
//
// Signs. With signed duals a pair step is beta_i += t, beta_j -= t, t > 0, whatever the labels were. Variable i may go *up*
// if beta_i < upper_i, j may go *down* if beta_j > lower_j. The point is optimal to `tolerance` when
//     violation = max_{j down} G_j - min_{i up} G_i <= tolerance.
// The pair (Fan, Chen, Lin 2005): i = argmin_{up} G; j = argmax_{down} (G_j - G_i)^2 / (K_ii + K_jj - 2 K_ij), the largest
// decrease of the objective among the pairs with that i.
//
// Both variables of a pair are of the same group; with two groups, the better one of their pairs moves.
//
// Without an equality constraint a step moves one variable: the one with the largest decrease G_k^2 / K_kk.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "maxmargin/blas.hpp"
#include "maxmargin/tile_problem.hpp"
#include "minmax.hpp"
#include "pairings.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr double forbidden = 1e300;        // larger than any gradient; finite, as these files are compiled for finite numbers
constexpr float curvature_floor = 1e-12f;  // least curvature of a pair, relative to its diagonal, as in LIBSVM
constexpr float least_curvature = 1e-34f;  // curvature of samples with all features zero; a float can divide by it
constexpr long steps_per_look = 128;       // steps between two looks at the clock
constexpr double pairs_first = 1.5;        // pair steps before a Newton step, in units of its cost: most tiles end before
constexpr double rank_tolerance = 1e-14;   // relative pivot below which two constraints count as one
constexpr double rounding = 2e-16;         // rounding error of a sum, relative to the sizes of its terms
constexpr int most_drops = 16;             // variables that one Newton step fixes at a bound; more would be stale guesses

// An argmax over a row is: the maximum of each chunk, then the place inside the winning chunk.
template <class V>
inline int place_of(const V* values, V wanted) {
    int at = chunk - 1;
#pragma omp simd reduction(min : at)
    for (int k = 0; k < chunk; ++k) at = values[k] == wanted ? smaller(at, k) : at;
    return at;
}

template <class T>
class InnerSmo {
public:
    explicit InnerSmo(TileProblem<T>& problem)
        : p(problem), K(problem.K), m(K.size()), coupled(!problem.edges.empty()), padded(in_chunks(m)), n_chunks(padded / chunk),
          gradient(padded), diagonal(padded), free_now(m, 0), chunk_gain(n_chunks), chunk_violation(n_chunks),
          chunk_lowest(n_chunks, forbidden) {
        if (coupled)
            for (std::size_t g = 0; g + 1 < p.edges.size(); ++g) groups.emplace_back(p.edges[g], p.edges[g + 1], padded);
        else
            groups.emplace_back(0, m, padded);
        for (int k = 0; k < padded; ++k) {  // padding cannot move
            gradient[k] = k < m ? p.gradient[k] : 0.0;
            diagonal[k] = k < m ? static_cast<float>(K.diagonal(k)) : 1.0f;
        }
        find_units();
        for (int k = 0; k < m; ++k) note_bounds(k);
        if (coupled) find_idle_chunks();
    }

    TileResult solve() {
        TileResult result;
        double spent = 0.0;  // time on pair steps since the last Newton step, in nanoseconds
        bool newton_helps = true;
        find_lowest_up();
        while (true) {
            result.violation = coupled ? choose_pair() : choose_coordinate();
            const bool converged = result.violation <= p.tolerance;
            if (converged || result.steps >= p.max_steps) break;
            if (result.steps % steps_per_look == 0 && p.deadline.passed()) break;
            if (newton_helps && spent > pairs_first * std::max(newton_cost, cost_of_newton())) {
                spent = 0.0;
                if (!p.deadline.allows(1e-9 * cost_of_newton())) continue;
                newton_helps = minimise_over_free();
                find_lowest_up();
                continue;
            }
            if (!(coupled ? step_pair() : step_coordinate())) break;  // the step is below rounding
            ++result.steps;
            spent += 100.0 + m;
        }
        catch_up();
        std::copy_n(gradient.data(), m, p.gradient);
        result.lowest_curvature = lowest_curvature;
        if (coupled && groups[0].lowest_up < forbidden) result.level = groups[0].lowest_up + 0.5 * groups[0].violation;
        return result;
    }

private:
    // The variables of one equality constraint, and in which directions they may move. Other variables may not move, so that a
    // chunk with variables of two groups can be scanned for either group.
    struct Group {
        Group(int first, int last, int padded)
            : first(first), last(last), first_chunk(first / chunk), end_chunk(in_chunks(last) / chunk), up_bar(padded),
              down(padded) {
            std::fill_n(up_bar.data(), padded, forbidden);
            std::fill_n(down.data(), padded, 0.0f);
        }
        int first, last;             // variables
        int first_chunk, end_chunk;  // the chunks they are in
        std::vector<int> chunks;     // the chunks in which some variable can move
        Buffer<double> up_bar;
        Buffer<float> down;
        int i = 0, j = 0;
        double lowest_up = forbidden, violation = 0.0;
        float gain = 0.0f;
    };

    Group& group_of(int k) { return k < groups[0].last ? groups[0] : groups.back(); }

    void note_bounds(int k) {
        const bool may_rise = p.beta[k]<p.upper[k], may_fall = p.beta[k]> p.lower[k];
        n_free += (may_rise && may_fall) - free_now[k];
        free_now[k] = may_rise && may_fall;
        Group& g = group_of(k);
        g.up_bar[k] = may_rise ? 0.0 : forbidden;
        g.down[k] = may_fall ? static_cast<float>(unit) : 0.0f;
    }

    void set(int k, double value) {
        p.beta[k] = value;
        note_bounds(k);
    }

    // Gains are squares of violations over curvatures, in float32. In units in which the gradients are about one, and with
    // curvatures not too far below the largest, they stay within its range.
    void find_units() {
        double largest = 0.0;
        float widest = 0.0f, lowest = 0.0f;
        for (int k = 0; k < m; ++k) {
            largest = std::max(largest, std::abs(gradient[k]));
            widest = std::max(widest, std::abs(diagonal[k]));
            lowest = std::min(lowest, diagonal[k]);
        }
        unit = largest > 0.0 ? 1.0 / largest : 1.0;
        floor_of_all = std::max(1e-24f * widest, least_curvature) - 4.0f * curvature_floor * lowest;  // positive
    }

    // i = argmin_{up} G, in each group
    void find_lowest_up() { move_gradient(K.row(i), K.row(i), 0.0); }

    // G += t (a - b), and the new i of each group on the way
    void move_gradient(const T* a, const T* b, double t) {
        int moved = 0;  // number of chunks moved
        for (Group& g : groups) {
            for (int c : g.chunks) chunk_lowest[c] = move_chunk(g, c * chunk, a, b, c < moved ? 0.0 : t);
            moved = g.end_chunk;
            const auto first = chunk_lowest.begin();
            const int c = static_cast<int>(std::min_element(first + g.first_chunk, first + g.end_chunk) - first);
            g.lowest_up = g.first_chunk < g.end_chunk ? chunk_lowest[c] : forbidden;
            if (g.lowest_up >= forbidden) continue;
            move_chunk(g, c * chunk, a, b, 0.0);  // again, because other chunks have overwritten its values
            g.i = c * chunk + place_of(barred_in_chunk, g.lowest_up);
        }
    }

    // The next two functions are kept out of line: inlined, their pointers lose `__restrict`, and the loops are not vectorised.
    // Their ratings are stored for one chunk only, which costs no memory traffic.
    [[gnu::noinline]] double move_chunk(Group& g, int at, const T* row_a, const T* row_b, double t) {
        const T* __restrict a = row_a + at, * __restrict b = row_b + at;
        const double* __restrict bar = g.up_bar.data() + at;
        double* __restrict G = gradient.data() + at, * __restrict barred = barred_in_chunk;
        double lowest = forbidden;
#pragma omp simd reduction(min : lowest)
        for (int k = 0; k < chunk; ++k) {
            G[k] += t * static_cast<double>(a[k] - b[k]);
            barred[k] = G[k] + bar[k];
            lowest = smaller(lowest, barred[k]);
        }
        return lowest;
    }

    // Find the pair with the largest decrease; returns the violation.
    double choose_pair() {
        const Group* best = nullptr;
        double worst = 0.0;
        for (Group& g : groups) {
            g.violation = 0.0;
            if (g.lowest_up >= forbidden) continue;  // no variable may rise
            const T* row_i = K.row(g.i);
            for (int c : g.chunks) rate_chunk(g, c, row_i);
            const auto first = chunk_gain.begin();
            const int c = static_cast<int>(std::max_element(first + g.first_chunk, first + g.end_chunk) - first);
            g.gain = chunk_gain[c];
            rate_chunk(g, c, row_i);
            g.j = c * chunk + place_of(gains_in_chunk, g.gain);
            g.violation =
                *std::max_element(chunk_violation.begin() + g.first_chunk, chunk_violation.begin() + g.end_chunk) / unit;
            if (!best || g.gain > best->gain) best = &g;
            worst = std::max(worst, g.violation);
        }
        if (best) i = best->i, j = best->j;
        return worst;
    }

    [[gnu::noinline]] void rate_chunk(Group& group, int c, const T* row_i) {
        const int at = c * chunk;
        const double g = group.lowest_up;
        const float k_ii = diagonal[group.i], floor = floor_of_all + curvature_floor * k_ii;
        const T* __restrict K_i = row_i + at;
        const double* __restrict G = gradient.data() + at;
        const float* __restrict may_fall = group.down.data() + at, * __restrict k_jj = diagonal.data() + at;
        float* __restrict gain = gains_in_chunk;
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

    bool step_pair() {
        const T *K_i = K.row(i), *K_j = K.row(j);
        const double diagonals = static_cast<double>(K_i[i]) + K_j[j], met = diagonals - 2.0 * K_i[j];
        const double curvature = std::max(met, floor_of(diagonals));
        if (met < 0.0) lowest_curvature = std::min(lowest_curvature, met / std::max(diagonals, floor_of(diagonals)));
        const double room_i = p.upper[i] - p.beta[i], room_j = p.beta[j] - p.lower[j];
        const double t = std::min({(gradient[j] - gradient[i]) / curvature, room_i, room_j});
        if (!(t > 0.0)) return false;
        set(i, t == room_i ? p.upper[i] : p.beta[i] + t);
        set(j, t == room_j ? p.lower[j] : p.beta[j] - t);
        move_gradient(K_i, K_j, t);
        if (!idle_chunks.empty()) unseen[i] += t, unseen[j] -= t;
        return true;
    }

    double floor_of(double diagonals) const { return curvature_floor * std::max(diagonals, 0.0) + floor_of_all; }

    // Chunks in which no variable can move (the held-out samples of a fold) take no part in pair steps: what all of them did to
    // the gradient there is added up at the end.
    void find_idle_chunks() {
        std::vector<char> moves(n_chunks, 0);
        for (int k = 0; k < m; ++k) moves[k / chunk] |= p.lower[k] < p.upper[k];
        for (int c = 0; c < n_chunks; ++c)
            if (!moves[c]) idle_chunks.push_back(c);
        for (Group& g : groups)
            for (int c = g.first_chunk; c < g.end_chunk; ++c)
                if (moves[c]) g.chunks.push_back(c);
        if (!idle_chunks.empty()) unseen.assign(m, 0.0);
    }

    void catch_up() {
        free_rows.clear(), change.clear();
        for (int k = 0; k < static_cast<int>(unseen.size()); ++k)
            if (unseen[k] != 0.0) free_rows.push_back(K.row(k)), change.push_back(unseen[k]);
        std::vector<const T*> rows(free_rows.size());
        for (std::size_t c = 0, next; c < idle_chunks.size(); c = next) {
            for (next = c + 1; next < idle_chunks.size() && idle_chunks[next] == idle_chunks[next - 1] + 1;) ++next;
            const int first = idle_chunks[c] * chunk, width = static_cast<int>(next - c) * chunk;
            for (std::size_t a = 0; a < rows.size(); ++a) rows[a] = free_rows[a] + first;
            accumulate(rows.data(), static_cast<int>(rows.size()), width, change.data(), gradient.data() + first);
        }
    }

    // Without an equality constraint: find i, the variable with the largest decrease; returns the violation.
    double choose_coordinate() {
        double worst = 0.0, best = -1.0;
        for (int k = 0; k < m; ++k) {
            const double G = gradient[k];
            const double slope = G < 0 ? (p.beta[k] < p.upper[k] ? -G : 0.0) : (p.beta[k] > p.lower[k] ? G : 0.0);
            const double gain = slope * slope / std::max(static_cast<double>(diagonal[k]), static_cast<double>(least_curvature));
            worst = std::max(worst, slope);
            if (gain > best) best = gain, i = k;
        }
        return worst;
    }

    bool step_coordinate() {
        const T* K_i = K.row(i);
        const double curvature = std::max(static_cast<double>(K_i[i]), static_cast<double>(least_curvature));
        if (K_i[i] < 0) lowest_curvature = -1.0;
        const double old = p.beta[i];
        set(i, std::clamp(old - gradient[i] / curvature, p.lower[i], p.upper[i]));
        const double t = p.beta[i] - old;
        double* G = gradient.data();
#pragma omp simd
        for (int k = 0; k < m; ++k) G[k] += t * K_i[k];
        return t != 0.0;
    }

    // The cost of a Newton step in nanoseconds, from measurements in which a pair step takes 100 + m (two passes over m entries).
    // An error by a factor of two matters little: neither method can waste much more time than the other uses.
    double cost_of_newton() const {
        const double f = n_free;
        return f * f * (0.015 * f + 1.5) + f * (0.5 * m + 100.0) + 20.0 * m;
    }

    // Minimise over the free variables F, fixing at its bound each one that gets there (a primal active-set method).
    //
    // With P = K_FF^{-1} the minimum without the box is at beta + d, d = -P (G + sum_g nu_g 1_g), 1_g marking the variables of
    // group g and nu such that d sums to zero in each. Go there as far as the box allows, by t; then K_FF d = -(G + nu) gives
    // G <- G - t (G + nu) on F without a product. If a variable k stopped the step it leaves F: P <- P - p_k p_k' / p_kk, p_k
    // its column, which zeroes its row and column. P itself is never formed: only its products with G and the 1_g are needed,
    // and the columns of the variables that left. So Newton's direction is never clipped, which would spoil it where K_FF is
    // ill-conditioned.
    //
    // The factor is that of S K_FF S with S = diag(1 / sqrt(K_aa)), so that samples of very different size do each other no harm.
    //
    // Returns false if rounding errors prevent the step.
    bool minimise_over_free() {
        free.clear();
        for (int k = 0; k < m; ++k)
            if (free_now[k]) free.push_back(k);
        const int f = static_cast<int>(free.size());
        newton_cost = cost_of_newton();
        if (f < 2) return true;  // nothing to do now
        if (!factor_free()) return false;
        left.clear();
        value.resize(f), direction.resize(f), products.assign((1 + p.n_groups()) * f, 0.0);  // of P with G and with each 1_g
        for (int a = 0; a < f; ++a) {
            value[a] = p.beta[free[a]], products[a] = gradient[free[a]];
            if (coupled) products[(1 + group_index(free[a])) * f + a] = 1.0;
        }
        apply_inverse(products);
        for (int drops = 0; drops <= most_drops; ++drops) {
            if (!find_direction()) break;
            double t = 1.0;
            int blocking = -1;
            for (int a = 0; a < f; ++a) {
                const double d = direction[a];
                const double room = d > 0.0 ? p.upper[free[a]] - value[a] : value[a] - p.lower[free[a]];
                if (std::abs(d) * t > room) t = room / std::abs(d), blocking = a;
            }
            for (int a = 0; a < f; ++a) {
                value[a] += t * direction[a];
                products[a] += t * direction[a];  // P (G - t (G + nu))
            }
            if (blocking < 0 || !leave(blocking)) break;
        }
        return go_to_value();
    }

    int group_index(int k) const { return k >= groups[0].last; }

    // d = -P (G + sum_g nu_g 1_g) with S nu = -s, S_gh = 1_g' P 1_h, s_g = 1_g' P G. False if no variable is left that could
    // move.
    bool find_direction() {
        const int f = static_cast<int>(free.size()), n_groups = p.n_groups();
        const double* Pg = products.data();
        double s[2] = {0.0, 0.0}, S[2][2] = {{0.0, 0.0}, {0.0, 0.0}}, nu[2] = {0.0, 0.0};
        for (int a = 0; a < f && coupled; ++a) {
            const int g = group_index(free[a]);
            s[g] += Pg[a];
            for (int h = 0; h < n_groups; ++h) S[g][h] += Pg[(1 + h) * f + a];
        }
        const double schur = S[1][1] - (S[0][0] > 0.0 ? S[0][1] * S[1][0] / S[0][0] : 0.0);  // S is positive semi-definite
        if (schur > rank_tolerance * S[1][1]) nu[1] = -(s[1] - (S[0][0] > 0.0 ? S[1][0] * s[0] / S[0][0] : 0.0)) / schur;
        if (S[0][0] > 0.0) nu[0] = -(s[0] + S[0][1] * nu[1]) / S[0][0];
        if (coupled && !(S[0][0] > 0.0) && !(S[1][1] > 0.0)) return false;
        for (int a = 0; a < f; ++a) {
            direction[a] = -Pg[a];
            for (int h = 0; h < n_groups; ++h) direction[a] -= nu[h] * Pg[(1 + h) * f + a];
        }
        return true;
    }

    // Fix the free variable k at the bound that it reached.
    bool leave(int k) {
        const int f = static_cast<int>(free.size()), v = free[k];
        value[k] = value[k] - p.lower[v] < p.upper[v] - value[k] ? p.lower[v] : p.upper[v];
        std::vector<double> column(f, 0.0);
        column[k] = 1.0;
        apply_inverse(column);
        for (const Left& other : left) {
            const double share = other.column[k] / other.pivot;
            for (int a = 0; a < f; ++a) column[a] -= share * other.column[a];
        }
        for (const Left& other : left) column[other.index] = 0.0;  // exactly zero, so that they stay where they are
        const double pivot = column[k];
        if (!(pivot > 0.0)) return false;
        for (std::size_t start = 0; start < products.size(); start += f) {
            double* product = products.data() + start;
            const double share = product[k] / pivot;
            for (int a = 0; a < f; ++a) product[a] -= share * column[a];
            product[k] = 0.0;
        }
        newton_cost += 0.8 * f * f;
        left.push_back({k, pivot, std::move(column)});
        return true;
    }

    // columns <- P columns, one after the other
    void apply_inverse(std::vector<double>& columns) const {
        const std::size_t f = free.size();
        for (std::size_t k = 0; k < columns.size(); ++k) columns[k] *= scale[k % f];
        blas::cholesky_solve(static_cast<int>(f), static_cast<int>(columns.size() / f), factor.data(), columns.data());
        for (std::size_t k = 0; k < columns.size(); ++k) columns[k] *= scale[k % f];
    }

    // The Cholesky factor of S K_FF S, after a ridge that makes up for the rounding of its eigenvalues.
    bool factor_free() {
        const int f = static_cast<int>(free.size());
        scale.resize(f);
        for (int a = 0; a < f; ++a)
            scale[a] = 1.0 / std::sqrt(std::max(static_cast<double>(diagonal[free[a]]), double(least_curvature)));
        double ridge = sizeof(T) == 4 ? 1e-7 : 1e-14;
        // rounding makes K_FF indefinite by about f units in the last place; without a box no step may follow such a direction
        if (sizeof(T) == 8 && std::any_of(free.begin(), free.end(), [&](int k) { return p.upper[k] - p.lower[k] >= forbidden; }))
            ridge = std::max(ridge, 16.0 * f * std::numeric_limits<double>::epsilon());
        for (int attempt = 0; attempt < 3; ++attempt, ridge *= 100.0) {
            factor.resize(static_cast<std::size_t>(f) * f);
            for (int a = 0; a < f; ++a) {
                const T* K_a = K.row(free[a]);
                double* out = factor.data() + static_cast<std::size_t>(a) * f;
                for (int b = a; b < f; ++b) out[b] = scale[a] * scale[b] * K_a[free[b]];
                out[a] += ridge;
            }
            if (blas::cholesky(f, factor.data())) return true;
        }
        return false;
    }

    // Move the free variables towards `value`, by exact line search, because rounding may have spoilt the direction.
    bool go_to_value() {
        const int f = static_cast<int>(free.size());
        for (int a = 0; a < f; ++a) value[a] = std::clamp(value[a], p.lower[free[a]], p.upper[free[a]]);
        if (coupled)
            for (const Group& g : groups)
                if (!keep_sum(g)) return false;
        double slope = 0.0, size = 0.0;
        change.resize(f);
        for (int a = 0; a < f; ++a) {
            change[a] = value[a] - p.beta[free[a]];
            slope += gradient[free[a]] * change[a];
            size += std::abs(change[a]) / scale[a];
        }
        if (!(slope < -rounding * size * size)) return false;  // the curvature would be only rounding
        movement.assign(padded, 0.0);
        free_rows.resize(f);
        for (int a = 0; a < f; ++a) free_rows[a] = K.row(free[a]);
        accumulate(free_rows.data(), f, m, change.data(), movement.data());
        double curvature = 0.0;
        for (int a = 0; a < f; ++a) curvature += movement[free[a]] * change[a];
        const double t = curvature > -slope ? -slope / curvature : 1.0;
        for (int a = 0; a < f; ++a) {
            const int k = free[a];
            set(k, t == 1.0 ? value[a] : std::clamp(p.beta[k] + t * change[a], p.lower[k], p.upper[k]));
        }
        for (int k = 0; k < m; ++k) gradient[k] += t * movement[k];
        return true;
    }

    // Make the values of a group add up to the present sum of its variables: those with the most room take the difference. False
    // if they cannot, because a step that rounding has spoilt was clipped.
    bool keep_sum(const Group& g) {
        for (int attempt = 0; attempt < most_drops; ++attempt) {
            double amiss = 0.0, size = 0.0, most = 0.0;
            int widest = -1;
            for (int a = 0; a < static_cast<int>(free.size()); ++a) {
                if (free[a] < g.first || free[a] >= g.last) continue;
                amiss += value[a] - p.beta[free[a]];
                size += std::abs(value[a]) + std::abs(p.beta[free[a]]);
            }
            if (std::abs(amiss) <= rounding * size) return true;
            for (int a = 0; a < static_cast<int>(free.size()); ++a) {
                if (free[a] < g.first || free[a] >= g.last) continue;
                const double room = amiss > 0.0 ? value[a] - p.lower[free[a]] : p.upper[free[a]] - value[a];
                if (room > most) most = room, widest = a;
            }
            if (widest < 0) return false;
            value[widest] -= std::clamp(amiss, -most, most);
        }
        return false;
    }

    TileProblem<T>& p;
    const Tile<T>& K;
    const int m;
    const bool coupled;
    const int padded, n_chunks;
    std::vector<Group> groups;
    Buffer<double> gradient;
    Buffer<float> diagonal;
    std::vector<signed char> free_now;
    std::vector<float> chunk_gain, chunk_violation;
    std::vector<double> chunk_lowest;
    std::vector<int> idle_chunks;
    std::vector<double> unseen;                 // the pair steps that idle chunks have not seen yet, summed for each variable
    alignas(64) double barred_in_chunk[chunk];  // G of the variables that may rise, in the last chunk scanned
    alignas(64) float gains_in_chunk[chunk];
    int i = 0, j = 0, n_free = 0;  // i and j: the pair (or coordinate) to move
    double unit = 1.0;             // factor on violations in the rating of pairs
    float floor_of_all = 0.0f;     // least curvature of every pair
    double lowest_curvature = 0.0;

    std::vector<int> free;
    std::vector<double> factor, scale, products, value, direction, change, movement;
    struct Left {  // a variable that left, with its column of P at that time
        int index;
        double pivot;
        std::vector<double> column;
    };
    std::vector<Left> left;
    double newton_cost = 0.0;  // time of the last Newton step, in nanoseconds
    std::vector<const T*> free_rows;
};

template <class T>
TileResult solve_tile(TileProblem<T>& problem) {
    return InnerSmo<T>(problem).solve();
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
