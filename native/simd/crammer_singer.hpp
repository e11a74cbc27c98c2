// The solver of a JointTileProblem (Crammer and Singer's machine): sequential minimisation on one dense tile, one or two samples
// at a time, and a Newton step (active_set_newton.hpp) whenever the steps since the last one have cost as much as it does.
//
//     min over B   sum_m 1/2 (B_m - B0_m)' K (B_m - B0_m) + G_m' (B_m - B0_m)
//     s.t.         B <= upper,   sum_m B_mi = 0  for each sample i
//
// given the gradient G at B0.
//
// Shares. Put S = upper - B. The shares S_mi >= 0 of sample i in the rows m add up to C_i = sum_m upper_mi: a simplex for each
// sample. A point is optimal if every sample has its shares where its gradient is highest; the *violation* of sample i is
//     max_m G_mi - min_{m: S_mi > 0} G_mi.
//
// One sample (Keerthi et al. 2008). With a = K_ii and the *ceilings* D_m = G_m + a S_m, which do not change while only this
// sample moves, the objective is 1/2 a |S|^2 - D'S over the simplex, and its minimum is at
//     S_m = max(0, D_m - theta) / a   with theta such that   sum_m max(0, D_m - theta) = a C_i.
// Lower theta from the highest ceiling past one after the other, until the sum is large enough.
//
// Two samples. A sample alone moves by no more than its violation over K_ii, which is little if C is large. But where i gives
// from row lo to row hi and a neighbour j from hi to lo, what they do to the others nearly cancels, and they may go far: as in
// SMO, which moves pairs. So i takes the rows of its violation, and the partner j with the largest decrease of the objective in
// these rows.
//
// Order. The samples with the largest violations first: *sweeps* over the *hot* samples pass over those with less than a part of
// the worst violation among them.
//
// Newton. A sample with several shares lies on a *face* of its simplex. The row of its largest share is its *base*, which gets
// what the others leave; each other share is a variable. A variable is at least zero, and the variables of a sample add up to at
// most what makes its base zero.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "active_set_newton.hpp"
#include "maxmargin/joint_tile.hpp"
#include "minmax.hpp"
#include "tolerances.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr double hot = 0.1;           // a sample is hot if its violation is above this share of the worst one
constexpr double worth_a_step = 0.7;  // a sweep moves samples above this share of the worst violation in the last sweep
constexpr double cooled = 0.2;        // all samples are rated again when the hot ones are below this share of the worst one
constexpr int most_zeros = 64;        // shares that become zero in one Newton step

template <class T>
class JointTileSolver {
public:
    explicit JointTileSolver(JointTileProblem<T>& problem)
        : p(problem), K(problem.K), m(K.size()), n_rows(problem.n_rows), padded(in_chunks(m)), n_chunks(padded / chunk),
          gradient(static_cast<std::size_t>(n_rows) * padded), share(gradient.size()), violations(padded),
          has_share(gradient.size()), scale(padded), gains(padded), chunk_gain(n_chunks), total(m, 0.0), moved(m, 0),
          ceilings(n_rows), shares(n_rows), order(n_rows) {
        for (int k = 0; k < padded; ++k)
            scale[k] = k < m ? static_cast<float>(1.0 / std::sqrt(std::max(K.diagonal(k), double(least_curvature)))) : 0.0f;
        for (int c = 0; c < n_rows; ++c)
            for (int k = 0; k < padded; ++k) {  // the padding has no share anywhere
                const std::size_t given = static_cast<std::size_t>(c) * m + k;
                gradient[at(c, k)] = k < m ? p.gradient[given] : 0.0;
                set_share(c, k, k < m ? p.upper[given] - p.beta[given] : 0.0);
                if (k < m) total[k] += p.upper[given];
            }
    }

    TileResult solve() {
        while ((result.violation = find_violations()) > p.tolerance && !has_to_end()) {
            sweep_over_hot_samples();
            const double cost = cost_of_newton();
            if (!newton_helps || spent < cost) continue;
            if (p.deadline.allows(1e-9 * cost)) newton_helps = minimise_over_face();
            spent = 0.0;
        }
        for (int i = 0; i < m; ++i)
            if (moved[i]) tell(i);
        for (int c = 0; c < n_rows; ++c) std::copy_n(gradient.data() + at(c, 0), m, p.gradient + static_cast<std::size_t>(c) * m);
        return result;
    }

private:
    bool has_to_end() const { return result.steps >= p.max_steps || p.deadline.passed(); }

    std::size_t at(int c, int k) const { return static_cast<std::size_t>(c) * padded + k; }

    void set_share(int c, int k, double value) {
        share[at(c, k)] = value;
        has_share[at(c, k)] = value > 0.0 ? 1.0f : 0.0f;
    }

    // Set B from the shares of sample i; the largest share takes the rounding error of the sum.
    void tell(int i) {
        int widest = 0;
        double rest = total[i];
        for (int c = 0; c < n_rows; ++c) {
            rest -= share[at(c, i)];
            if (share[at(c, i)] > share[at(widest, i)]) widest = c;
        }
        share[at(widest, i)] += rest;
        for (int c = 0; c < n_rows; ++c) {
            const std::size_t given = static_cast<std::size_t>(c) * m + i;
            p.beta[given] = p.upper[given] - share[at(c, i)];
        }
    }

    // --- which sample ---------------------------------------------------------------------------------------------

    double find_violations() {
        double worst = 0.0;
        for (int k = 0; k < padded; k += chunk) worst = std::max(worst, rate_chunk(k));
        spent += 0.5 * n_rows * m;
        return worst;
    }

    // This and the loops below are kept out of line: inlined, their pointers lose `__restrict`, and they are not vectorised.
    [[gnu::noinline]] double rate_chunk(int first) {
        double highest[chunk], lowest[chunk], worst = 0.0;
        for (int k = 0; k < chunk; ++k) highest[k] = -forbidden, lowest[k] = forbidden;
        for (int c = 0; c < n_rows; ++c) {
            const double* __restrict G = gradient.data() + at(c, first);
            const float* __restrict with_share = has_share.data() + at(c, first);
#pragma omp simd
            for (int k = 0; k < chunk; ++k) {
                highest[k] = larger(highest[k], G[k]);
                lowest[k] = with_share[k] != 0.0f ? smaller(lowest[k], G[k]) : lowest[k];
            }
        }
        double* __restrict out = violations.data() + first;
#pragma omp simd reduction(max : worst)
        for (int k = 0; k < chunk; ++k) {
            out[k] = larger(highest[k] - lowest[k], 0.0);  // a sample without shares cannot move
            worst = larger(worst, out[k]);
        }
        return worst;
    }

    void sweep_over_hot_samples() {
        double worst = result.violation;
        hot_samples.clear();
        for (int i = 0; i < m; ++i)
            if (violations[i] > hot * worst) hot_samples.push_back(i);
        const double goal = std::max(p.tolerance, cooled * worst);
        while (worst > goal && !has_to_end()) {
            const double worth = std::max(goal, worth_a_step * worst);
            worst = goal;
            for (int i : hot_samples) {
                const double violation = find_rows(i);
                worst = std::max(worst, std::min(violation, worth));
                if (violation <= worth || result.steps >= p.max_steps) continue;
                if (result.steps % steps_per_look == 0 && p.deadline.passed()) break;
                const int j = best_partner(i, violation);
                if (j < 0 || !minimise_over_two(i, j)) minimise_over(i);
                ++result.steps;
            }
            spent += 3.0 * n_rows * static_cast<double>(hot_samples.size());
        }
    }

    // Find the rows of the violation of sample i, hi and (with a share) lo; return the violation.
    double find_rows(int i) {
        hi = lo = 0;
        double highest = -forbidden, lowest = forbidden;
        for (int c = 0; c < n_rows; ++c) {
            const double G = gradient[at(c, i)];
            if (G > highest) highest = G, hi = c;
            if (has_share[at(c, i)] != 0.0f && G < lowest) lowest = G, lo = c;
        }
        return std::max(highest - lowest, 0.0);
    }

    // --- one sample -----------------------------------------------------------------------------------------------

    void minimise_over(int i) {
        const T* K_i = K.row(i);
        if (K_i[i] < 0) result.lowest_curvature = -1.0;
        const double curvature = std::max(static_cast<double>(K_i[i]), static_cast<double>(least_curvature));
        for (int c = 0; c < n_rows; ++c) ceilings[c] = gradient[at(c, i)] + curvature * share[at(c, i)];
        const double theta = threshold(curvature * total[i]);
        double rest = total[i];
        for (int c = 0; c < n_rows; ++c) {
            shares[c] = std::max(0.0, ceilings[c] - theta) / curvature;
            if (c != order[0]) rest -= shares[c];
        }
        shares[order[0]] = std::max(0.0, rest);  // the largest share takes the rounding error of the sum
        for (int c = 0; c < n_rows; ++c) {
            const double change = share[at(c, i)] - shares[c];
            if (change == 0.0) continue;
            add_row(gradient.data() + at(c, 0), K_i, change);
            set_share(c, i, shares[c]);
        }
        moved[i] = 1;
    }

    // The threshold theta; afterwards order[0] is the row of the highest ceiling.
    double threshold(double mass) {
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int a, int b) { return ceilings[a] > ceilings[b]; });
        double sum = ceilings[order[0]] - mass, theta = sum;
        for (int r = 1; r < n_rows && ceilings[order[r]] > theta; ++r) {
            sum += ceilings[order[r]];
            theta = sum / (r + 1);
        }
        return theta;
    }

    [[gnu::noinline]] void add_row(double* __restrict G, const T* __restrict row, double t) {
#pragma omp simd
        for (int k = 0; k < padded; ++k) G[k] += t * static_cast<double>(row[k]);
        spent += 20.0 + 0.5 * m;
    }

    // --- two samples ----------------------------------------------------------------------------------------------

    // If i gives s from lo to hi and j gives t from hi to lo, the objective changes by
    //     f(s, t) = -v s + w t + K_ii s^2 + K_jj t^2 - 2 K_ij s t,   v = G_hi,i - G_lo,i,   w = G_hi,j - G_lo,j.
    // The partner is the sample with the lowest minimum of f among those with a share to give in that direction; -1 if i alone
    // does as well.
    int best_partner(int i, double violation) {
        for (int c = 0; c < n_chunks; ++c) chunk_gain[c] = rate_partners(i, c * chunk, static_cast<float>(violation) * scale[i]);
        const int c = static_cast<int>(std::max_element(chunk_gain.begin(), chunk_gain.end()) - chunk_gain.begin());
        const int j = c * chunk + place_of(gains.data() + c * chunk, chunk_gain[c]);
        spent += 50.0 + 0.5 * m;
        const float alone = static_cast<float>(violation) * scale[i];
        return j == i || chunk_gain[c] <= alone * alone ? -1 : j;
    }

    // Rate the partners by four times the decrease of the objective, with samples scaled to K_jj = 1.
    [[gnu::noinline]] float rate_partners(int i, int first, float v) {
        const T* __restrict K_i = K.row(i) + first;
        const double* __restrict G_hi = gradient.data() + at(hi, first), * __restrict G_lo = gradient.data() + at(lo, first);
        const float* __restrict gives_hi = has_share.data() + at(hi, first), * __restrict gives_lo =
                                                                                 has_share.data() + at(lo, first);
        const float* __restrict unit = scale.data() + first;
        float* __restrict gain = gains.data() + first;
        const float unit_i = scale[i];
        float best = 0.0f;
#pragma omp simd reduction(max : best)
        for (int k = 0; k < chunk; ++k) {
            const float w = static_cast<float>(G_hi[k] - G_lo[k]) * unit[k];
            const float cosine = static_cast<float>(K_i[k]) * unit_i * unit[k];
            const float gives = v * cosine > w ? gives_hi[k] : gives_lo[k];
            gain[k] = gives * (v * v - 2.0f * v * w * cosine + w * w) / larger(1.0f - cosine * cosine, least_squared_sine);
            best = larger(best, gain[k]);
        }
        return best;
    }

    // Move to the minimum of f within the shares; false if the samples are already there.
    bool minimise_over_two(int i, int j) {
        const T *K_i = K.row(i), *K_j = K.row(j);
        const double a = std::max(K.diagonal(i), double(least_curvature)), b = std::max(K.diagonal(j), double(least_curvature));
        const double c = static_cast<double>(K_i[j]), det = a * b - c * c;
        if (det < 0.0) result.lowest_curvature = std::min(result.lowest_curvature, det / (a * b));
        const double v = gradient[at(hi, i)] - gradient[at(lo, i)], w = gradient[at(hi, j)] - gradient[at(lo, j)];
        const double least_s = -share[at(hi, i)], most_s = share[at(lo, i)], least_t = -share[at(lo, j)],
                     most_t = share[at(hi, j)];
        double s = 0.0, t = 0.0, lowest = 0.0;
        auto consider = [&](double x, double y) {
            const double f = -v * x + w * y + a * x * x + b * y * y - 2.0 * c * x * y;
            if (f < lowest) lowest = f, s = x, t = y;
        };
        const double free_s = 0.5 * (v * b - w * c), free_t = 0.5 * (v * c - w * a);  // times det
        if (det > 0.0 && free_s >= det * least_s && free_s <= det * most_s && free_t >= det * least_t && free_t <= det * most_t) {
            consider(free_s / det, free_t / det);
        } else {
            for (double x : {least_s, most_s}) consider(x, std::clamp((c * x - 0.5 * w) / b, least_t, most_t));
            for (double y : {least_t, most_t}) consider(std::clamp((c * y + 0.5 * v) / a, least_s, most_s), y);
        }
        if (!(lowest < 0.0)) return false;
        give(i, lo, hi, s);
        give(j, hi, lo, t);
        add_rows(gradient.data() + at(hi, 0), gradient.data() + at(lo, 0), K_i, K_j, s, t);
        return true;
    }

    void give(int i, int from, int to, double amount) {
        const double whole = share[at(from, i)] + share[at(to, i)];
        const double left = amount == share[at(from, i)]  ? 0.0
                            : amount == -share[at(to, i)] ? whole
                                                          : share[at(from, i)] - amount;
        set_share(from, i, left);
        set_share(to, i, whole - left);
        moved[i] = 1;
    }

    [[gnu::noinline]] void add_rows(double* __restrict G_hi, double* __restrict G_lo, const T* __restrict K_i,
                                    const T* __restrict K_j, double s, double t) {
#pragma omp simd
        for (int k = 0; k < padded; ++k) {
            const double change = s * static_cast<double>(K_i[k]) - t * static_cast<double>(K_j[k]);
            G_hi[k] -= change;
            G_lo[k] += change;
        }
        spent += 50.0 + 0.5 * m;
    }

    // --- Newton steps ---------------------------------------------------------------------------------------------

    struct Variable {  // the share of a sample of the face in a row that is not its base
        int sample, row, base;
    };

    // The cost of a Newton step in nanoseconds, from measurements; `spent` has the same unit.
    double cost_of_newton() const {
        double N = -m;
        for (float one : has_share) N += one;
        return N * N * (0.015 * N + 3.0) + 1.5 * (N + m) * m;
    }

    // Returns false if rounding errors prevent the step.
    bool minimise_over_face() {
        state_newton();
        if (variables.empty()) return true;  // nothing to do now
        bool found = false;
        Team::gather(members_of_newton(newton.size()), [&](Team& team) {
            found = newton.factor(ridge<T>, [&](int v, double* column) { fill_column(v, column); }, team);
            if (found) newton.minimise(most_zeros, team);
        });
        return found && move_shares();
    }

    void state_newton() {
        variables.clear(), newton.clear();
        std::vector<Bound> of_bases;
        for (int i = 0; i < m; ++i) {
            const int first = newton.size();
            int base = 0;
            for (int c = 1; c < n_rows; ++c)
                if (share[at(c, i)] > share[at(base, i)]) base = c;
            for (int c = 0; c < n_rows; ++c) {
                if (c == base || has_share[at(c, i)] == 0.0f) continue;
                const int v = newton.size();
                variables.push_back({i, c, base});
                newton.gradient.push_back(gradient[at(base, i)] - gradient[at(c, i)]);
                newton.scale.push_back(scale[i]);
                newton.bounds.push_back({{v, v + 1}, share[at(c, i)], 0.0, unbounded});
            }
            if (newton.size() > first) of_bases.push_back({{first, newton.size()}, -share[at(base, i)], -unbounded, 0.0});
        }
        newton.bounds.insert(newton.bounds.end(), of_bases.begin(), of_bases.end());
    }

    // The Hessian of two variables: plus K_ij if their rows are the same, plus K_ij if their bases are, minus K_ij if the row of
    // one is the base of the other.
    void fill_column(int v, double* column) const {
        const Variable& a = variables[v];
        const T* K_i = K.row(a.sample);
        for (std::size_t w = v; w < variables.size(); ++w) {
            const Variable& b = variables[w];
            const int times = (a.row == b.row) + (a.base == b.base) - (a.row == b.base) - (a.base == b.row);
            column[w] = times * static_cast<double>(K_i[b.sample]);
        }
    }

    bool move_shares() {
        changes.clear();
        for (std::size_t k = 0; k < newton.bounds.size(); ++k) {
            const Variable& v = variables[newton.bounds[k].range.first];
            const bool of_base = k >= variables.size();
            const int row = of_base ? v.base : v.row;
            const double wanted = of_base ? -newton.bounds[k].at : newton.bounds[k].at;
            changes.push_back({row, v.sample, share[at(row, v.sample)] - std::max(0.0, wanted)});
        }
        double slope = 0.0;
        for (const Change& c : changes) slope += gradient[at(c.row, c.sample)] * c.amount;
        const double t = search_along(changes, slope, K, gradient.data(), n_rows, padded);
        if (t == 0.0) return false;
        for (const Change& c : changes) {
            set_share(c.row, c.sample, std::max(0.0, share[at(c.row, c.sample)] - t * c.amount));
            moved[c.sample] = 1;
        }
        return true;
    }

    JointTileProblem<T>& p;
    const Tile<T>& K;
    const int m, n_rows, padded, n_chunks;
    TileResult result;
    std::vector<double> gradient, share, violations;  // row by row, padded
    std::vector<float> has_share, scale, gains, chunk_gain;
    std::vector<double> total;
    std::vector<char> moved;
    std::vector<int> hot_samples;
    int hi = 0, lo = 0;  // rows of the violation of the present sample
    std::vector<double> ceilings, shares;
    std::vector<int> order;

    double spent = 0.0;  // time since the last Newton step, in nanoseconds
    bool newton_helps = true;
    ActiveSetNewton newton;
    std::vector<Variable> variables;
    std::vector<Change> changes;
};

template <class T>
TileResult solve_joint_tile(JointTileProblem<T>& problem) {
    return JointTileSolver<T>(problem).solve();
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
