// The inner solver of Crammer and Singer's machine: sequential minimisation on one dense tile, one or two samples at a time, and
// an active-set Newton method whenever the steps since the last one have cost as much as it does.
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
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "inner_smo.hpp"
#include "maxmargin/blas.hpp"
#include "maxmargin/joint_tile.hpp"
#include "maxmargin/memory.hpp"
#include "minmax.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr double hot = 0.1;           // a sample is hot if its violation is above this share of the worst one
constexpr double worth_a_step = 0.7;  // a sweep moves samples above this share of the worst violation in the last sweep
constexpr double cooled = 0.2;        // all samples are rated again when the hot ones are below this share of the worst one
constexpr float closest = 1e-6f;      // smallest 1 - cos^2 of the angle between two samples: smaller values are rounding
constexpr int most_bounds = 64;       // shares that may become zero in one Newton step; further ones would be stale guesses

template <class T>
class InnerCrammerSinger {
public:
    explicit InnerCrammerSinger(JointTileProblem<T>& problem)
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
            gain[k] = gives * (v * v - 2.0f * v * w * cosine + w * w) / larger(1.0f - cosine * cosine, closest);
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

    // A sample with several shares: a sample of the *face*. The row of its largest share is its base; each other share is a
    // variable, which moves B from the base to its row.
    struct FaceSample {
        int sample, base;
        int first, last;  // range of its variables
    };
    // A share that became zero: the share of a variable, or of the base of a face sample if `variable` is none.
    struct Bound {
        int at, variable;
        double pivot;
        std::vector<double> column;
    };
    static constexpr int none = -1;

    // The cost of a Newton step in nanoseconds, from measurements; `spent` has the same unit.
    double cost_of_newton() const {
        double N = -m;
        for (float one : has_share) N += one;
        return N * N * (0.015 * N + 3.0) + 1.5 * (N + m) * m;
    }

    // A primal active-set method. With R the Hessian of the variables and g their gradient, the minimum is at -R^{-1} g. Go there
    // until a share becomes zero, by a part t of the way: then g <- (1 - t) g. With a'd the change of that share by moves d,
    // R^{-1} becomes R^{-1} - u u' / a'u, u = R^{-1} a, which keeps it at zero. Only its product with g is formed, and the u of
    // each bound.
    //
    // Returns false if rounding errors prevent the step.
    bool minimise_over_face() {
        list_face();
        const int N = static_cast<int>(variables.size());
        if (N == 0) return true;  // nothing to do now
        if (!factor_face()) return false;
        met.clear();
        moves.assign(N, 0.0);
        product.resize(N);
        for (const FaceSample& f : face)
            for (int v = f.first; v < f.last; ++v)
                product[v] = gradient[at(variables[v], f.sample)] - gradient[at(f.base, f.sample)];
        apply_inverse(product);
        while (true) {
            Bound bound{none, none, 0.0, {}};
            const double t = way_to(bound);
            for (int v = 0; v < N; ++v) moves[v] -= t * product[v], product[v] -= t * product[v];
            if (bound.at == none || static_cast<int>(met.size()) == most_bounds || !meet(bound)) break;
        }
        return make_moves();
    }

    void list_face() {
        face.clear(), variables.clear();
        for (int i = 0; i < m; ++i) {
            FaceSample f{i, 0, static_cast<int>(variables.size()), 0};
            for (int c = 1; c < n_rows; ++c)
                if (share[at(c, i)] > share[at(f.base, i)]) f.base = c;
            for (int c = 0; c < n_rows; ++c)
                if (c != f.base && share[at(c, i)] > 0.0) variables.push_back(c);
            f.last = static_cast<int>(variables.size());
            if (f.last > f.first) face.push_back(f);
        }
    }

    // vector <- R^{-1} vector
    void apply_inverse(std::vector<double>& vector) const {
        for (std::size_t v = 0; v < vector.size(); ++v) vector[v] *= variable_scale[v];
        blas::cholesky_solve(static_cast<int>(vector.size()), 1, factor.data(), vector.data());
        for (std::size_t v = 0; v < vector.size(); ++v) vector[v] *= variable_scale[v];
    }

    // The Cholesky factor of R, scaled to samples of size one, after a ridge that makes up for the rounding of its eigenvalues.
    bool factor_face() {
        const std::size_t N = variables.size();
        variable_scale.resize(N);
        for (const FaceSample& f : face)
            std::fill(&variable_scale[f.first], &variable_scale[f.last - 1] + 1, double(scale[f.sample]));
        double ridge = sizeof(T) == 4 ? 1e-7 : 1e-14;
        for (int attempt = 0; attempt < 3; ++attempt, ridge *= 100.0) {
            factor.resize(N * N);
            for (std::size_t s = 0; s < face.size(); ++s)
                for (int v = face[s].first; v < face[s].last; ++v) {
                    double* column = factor.data() + v * N;
                    fill_column(s, variables[v], column);
                    for (std::size_t w = face[s].first; w < N; ++w) column[w] *= variable_scale[v] * variable_scale[w];
                    column[v] += ridge;
                }
            if (blas::cholesky(static_cast<int>(N), factor.data())) return true;
        }
        return false;
    }

    // The entries of R for the variable in `row` of face sample s and the variables of s and of the samples after it: plus K_ij
    // if the rows of two variables are the same, plus K_ij if their bases are, minus K_ij if the row of one is the base of the
    // other.
    void fill_column(std::size_t s, int row, double* out) const {
        const T* K_i = K.row(face[s].sample);
        const int base = face[s].base;
        for (; s < face.size(); ++s) {
            const FaceSample& f = face[s];
            const int of_base = (base == f.base) - (row == f.base);
            for (int v = f.first; v < f.last; ++v)
                out[v] = static_cast<double>(K_i[f.sample]) * (of_base + (row == variables[v]) - (base == variables[v]));
        }
    }

    // The part of the way to the minimum at which a share becomes zero, and that share; 1 if none does.
    double way_to(Bound& bound) const {
        double t = 1.0;
        for (int s = 0; s < static_cast<int>(face.size()); ++s) {
            const FaceSample& f = face[s];
            double base = share[at(f.base, f.sample)], fall = 0.0;
            for (int v = f.first; v < f.last; ++v) {
                const double room = std::max(0.0, share[at(variables[v], f.sample)] - moves[v]);
                if (-product[v] * t > room) t = room / -product[v], bound.at = s, bound.variable = v;
                base += moves[v], fall += product[v];
            }
            base = std::max(0.0, base);
            if (fall * t > base && !base_is_zero(s)) t = base / fall, bound.at = s, bound.variable = none;
        }
        return t;
    }

    bool base_is_zero(int s) const {
        return std::any_of(met.begin(), met.end(), [s](const Bound& bound) { return bound.at == s && bound.variable == none; });
    }

    // Keep the share of the bound at zero from now on.
    bool meet(Bound& bound) {
        const int N = static_cast<int>(variables.size());
        const bool of_base = bound.variable == none;
        const int first = of_base ? face[bound.at].first : bound.variable,
                  last = of_base ? face[bound.at].last : bound.variable + 1;
        auto change = [&](const std::vector<double>& d) { return std::accumulate(d.begin() + first, d.begin() + last, 0.0); };
        std::vector<double>& column = bound.column;
        column.assign(N, 0.0);
        std::fill(column.begin() + first, column.begin() + last, 1.0);
        apply_inverse(column);
        for (const Bound& other : met) {
            const double part = change(other.column) / other.pivot;
            for (int v = 0; v < N; ++v) column[v] -= part * other.column[v];
        }
        for (const Bound& other : met)
            if (other.variable != none) column[other.variable] = 0.0;  // exactly zero, so that they stay where they are
        bound.pivot = change(column);
        if (!(bound.pivot > 0.0)) return false;
        const double part = change(product) / bound.pivot;
        for (int v = 0; v < N; ++v) product[v] -= part * column[v];
        if (!of_base) product[bound.variable] = 0.0;
        met.push_back(std::move(bound));
        return true;
    }

    // Move by exact line search, because rounding may have spoilt the direction.
    bool make_moves() {
        for (const Bound& bound : met)
            if (bound.variable != none) moves[bound.variable] = share[at(variables[bound.variable], face[bound.at].sample)];
        movement.assign(gradient.size(), 0.0);
        base_moves.assign(face.size(), 0.0);
        double slope = 0.0, curvature = 0.0;
        for (int s = 0; s < static_cast<int>(face.size()); ++s) {
            const FaceSample& f = face[s];
            for (int v = f.first; v < f.last; ++v) moves[v] = std::min(moves[v], share[at(variables[v], f.sample)]);
            base_moves[s] = -std::accumulate(moves.begin() + f.first, moves.begin() + f.last, 0.0);
            if (base_is_zero(s)) base_moves[s] = share[at(f.base, f.sample)];
            for_each_move(s, [&](int c, double move) {
                slope += gradient[at(c, f.sample)] * move;
                if (move != 0.0) add_row(movement.data() + at(c, 0), K.row(f.sample), move);
            });
        }
        if (!(slope < 0.0)) return false;
        for (int s = 0; s < static_cast<int>(face.size()); ++s)
            for_each_move(s, [&](int c, double move) { curvature += movement[at(c, face[s].sample)] * move; });
        const double t = curvature > -slope ? -slope / curvature : 1.0;
        for (int s = 0; s < static_cast<int>(face.size()); ++s) {
            const int i = face[s].sample;
            for_each_move(s, [&](int c, double move) { set_share(c, i, std::max(0.0, share[at(c, i)] - t * move)); });
            moved[i] = 1;
        }
        for (std::size_t k = 0; k < gradient.size(); ++k) gradient[k] += t * movement[k];
        return true;
    }

    // Call `function(row, change of B)` for the rows in which a face sample moves.
    template <class Function>
    void for_each_move(int s, Function function) const {
        function(face[s].base, base_moves[s]);
        for (int v = face[s].first; v < face[s].last; ++v) function(variables[v], moves[v]);
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
    std::vector<FaceSample> face;
    std::vector<int> variables;                                                        // rows of the variables
    std::vector<double> factor, variable_scale, product, moves, base_moves, movement;  // product: of R^{-1} and the gradient
    std::vector<Bound> met;
};

template <class T>
TileResult solve_joint_tile(JointTileProblem<T>& problem) {
    return InnerCrammerSinger<T>(problem).solve();
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
