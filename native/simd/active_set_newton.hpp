// A Newton step within bounds, by a primal active-set method. Both solvers of a tile use it; they differ in what they call a
// variable, a tie and a bound.
//
//     min over x   1/2 (x - x0)' H (x - x0) + g' (x - x0)
//     s.t.         the sum of x over each tie   = the sum of x0 over it
//                  the sum of x over each bound's range   is within [low, high]
//
// given the point x0 with its gradient g, and the Hessian H. A tie is a range of variables; there are at most two, and they are
// disjoint.
//
// Let P = H^{-1}. Without bounds the minimum is at x + d, d = -P (g + sum_t nu_t 1_t), where 1_t marks the variables of tie t and
// nu is such that d sums to zero over each tie. Go there by the largest part t <= 1 of the way that the bounds allow (the ratio
// test); H d = -(g + nu) then gives g <- g - t (g + nu) without a product. If a bound ended the step, it is *met*: with a marking
// its range and u = P a, P <- P - u u' / a'u keeps its sum constant from now on. P itself is never formed: only its products with
// g and the 1_t are needed, and the u of the bounds that were met. So Newton's direction is never clipped, which would spoil it
// where H is ill-conditioned.
//
// The factor is that of S H S + ridge, S = diag(1 / sqrt(H_vv)), so that samples of very different size do each other no harm.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "maxmargin/blas.hpp"
#include "maxmargin/tile_problem.hpp"
#include "pairings.hpp"
#include "tolerances.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

struct Range {  // of variables
    int first, last;
    double sum(const double* x) const { return std::accumulate(x + first, x + last, 0.0); }
    bool single() const { return last == first + 1; }
};

struct Bound {
    Range range;
    double at, low, high;  // at: the sum of x over the range
    double change = 0.0;   // of that sum, by the present direction
    bool met = false;

    double room() const { return std::max(0.0, change > 0.0 ? high - at : at - low); }
};

class ActiveSetNewton {
public:
    // The problem. The caller fills these vectors after `clear`. The solution is bounds[..].at.
    std::vector<double> gradient, scale;  // scale: S
    std::vector<Range> ties;
    std::vector<Bound> bounds;

    int size() const { return static_cast<int>(gradient.size()); }
    int n_met() const { return static_cast<int>(met.size()); }
    void clear() { gradient.clear(), scale.clear(), ties.clear(), bounds.clear(), met.clear(); }

    // Factor H; `fill(v, column)` writes the entries column[w] = H_vw, w >= v. False if H is too far from positive definite.
    template <class Fill>
    bool factor(double added, Fill fill) {
        const std::size_t n = gradient.size();
        for (int attempt = 0; attempt < ridge_attempts; ++attempt, added *= ridge_growth) {
            matrix.resize(n * n);
            for (std::size_t v = 0; v < n; ++v) {
                double* column = matrix.data() + v * n;
                fill(static_cast<int>(v), column);
                for (std::size_t w = v; w < n; ++w) column[w] *= scale[v] * scale[w];
                column[v] += added;
            }
            if (blas::cholesky(size(), matrix.data())) return true;
        }
        return false;
    }

    // Go to the minimum, or until more than `most_bounds` are met: those of a direction found many bounds ago are stale guesses.
    void minimise(int most_bounds) {
        products.assign((1 + ties.size()) * size(), 0.0);
        std::copy(gradient.begin(), gradient.end(), products.begin());
        for (std::size_t t = 0; t < ties.size(); ++t)
            std::fill_n(&products[(1 + t) * size()] + ties[t].first, ties[t].last - ties[t].first, 1.0);
        apply_inverse(products);
        while (find_direction()) {
            double t = 1.0;
            Bound* blocking = nullptr;
            for (Bound& bound : bounds) {
                if (bound.met) continue;
                bound.change = bound.range.sum(direction.data());
                if (std::abs(bound.change) * t > bound.room()) t = bound.room() / std::abs(bound.change), blocking = &bound;
            }
            for (int v = 0; v < size(); ++v) products[v] += t * direction[v];  // P (g - t (g + nu))
            for (Bound& bound : bounds)
                if (!bound.met) bound.at += t * bound.change;
            if (!blocking || !meet(*blocking) || n_met() > most_bounds) break;
        }
    }

private:
    // d = -P (g + sum_t nu_t 1_t) with S nu = -s, S_tu = 1_t' P 1_u, s_t = 1_t' P g. False if the ties leave nothing to move.
    bool find_direction() {
        const int n = size(), n_ties = static_cast<int>(ties.size());
        double s[2] = {0.0, 0.0}, S[2][2] = {{0.0, 0.0}, {0.0, 0.0}}, nu[2] = {0.0, 0.0};
        for (int t = 0; t < n_ties; ++t) {
            s[t] = ties[t].sum(products.data());
            for (int u = 0; u < n_ties; ++u) S[t][u] = ties[t].sum(&products[(1 + u) * n]);
        }
        const double schur = S[1][1] - (S[0][0] > 0.0 ? S[0][1] * S[1][0] / S[0][0] : 0.0);  // S is positive semi-definite
        if (schur > rank_tolerance * S[1][1]) nu[1] = -(s[1] - (S[0][0] > 0.0 ? S[1][0] * s[0] / S[0][0] : 0.0)) / schur;
        if (S[0][0] > 0.0) nu[0] = -(s[0] + S[0][1] * nu[1]) / S[0][0];
        if (n_ties > 0 && !(S[0][0] > 0.0) && !(S[1][1] > 0.0)) return false;
        direction.resize(n);
        for (int v = 0; v < n; ++v) {
            direction[v] = -products[v];
            for (int t = 0; t < n_ties; ++t) direction[v] -= nu[t] * products[(1 + t) * n + v];
        }
        return true;
    }

    // Put the bound's sum exactly where it ends, and keep it there. False if rounding errors prevent that.
    bool meet(Bound& bound) {
        const int n = size();
        bound.at = bound.at - bound.low < bound.high - bound.at ? bound.low : bound.high;
        std::vector<double> column(n, 0.0);
        std::fill(&column[bound.range.first], &column[bound.range.last - 1] + 1, 1.0);
        apply_inverse(column);
        for (const Met& other : met) take_out(other, bound.range.sum(other.column.data()), column.data());
        for (const Met& other : met)
            if (other.range.single()) column[other.range.first] = 0.0;  // exactly zero, so that it stays where it is
        const double pivot = bound.range.sum(column.data());
        if (!(pivot > 0.0)) return false;
        bound.met = true;
        met.push_back({bound.range, pivot, std::move(column)});
        for (double* product = products.data(); product < products.data() + products.size(); product += n) {
            take_out(met.back(), bound.range.sum(product), product);
            if (bound.range.single()) product[bound.range.first] = 0.0;
        }
        return true;
    }

    struct Met {  // a bound that was met, its a'u and its u
        Range range;
        double pivot;
        std::vector<double> column;
    };
    // product -= u `along` / a'u
    static void take_out(const Met& bound, double along, double* product) {
        const double share = along / bound.pivot;
        for (std::size_t v = 0; v < bound.column.size(); ++v) product[v] -= share * bound.column[v];
    }

    // columns <- P columns, one after the other
    void apply_inverse(std::vector<double>& columns) const {
        const std::size_t n = gradient.size();
        for (std::size_t k = 0; k < columns.size(); ++k) columns[k] *= scale[k % n];
        blas::cholesky_solve(size(), static_cast<int>(columns.size() / n), matrix.data(), columns.data());
        for (std::size_t k = 0; k < columns.size(); ++k) columns[k] *= scale[k % n];
    }

    std::vector<double> matrix, products, direction;  // products: of P with g and with each 1_t
    std::vector<Met> met;
};

// What a Newton step does to the duals: those of a sample, in one row of them for each class or in the only one.
struct Change {
    int row, sample;
    double amount;
};

// Exact line search along the changes, because rounding may have spoilt their direction. The gradients, in rows of `stride`, move
// along. Returns the part of the changes to make, at most 1; 0 if the decrease of the objective would be only rounding.
template <class T>
double search_along(const std::vector<Change>& changes, const Tile<T>& K, double* gradient, int n_rows, int stride) {
    auto at = [stride](const Change& c) { return static_cast<std::size_t>(c.row) * stride + c.sample; };
    double slope = 0.0, size = 0.0, curvature = 0.0;
    for (const Change& c : changes) {
        slope += gradient[at(c)] * c.amount;
        size += std::abs(c.amount) * std::sqrt(std::max(K.diagonal(c.sample), 0.0));
    }
    if (!(slope < -rounding_of_sum * size * size)) return 0.0;
    std::vector<double> movement(static_cast<std::size_t>(n_rows) * stride, 0.0), amounts;
    std::vector<const T*> samples;
    for (int row = 0; row < n_rows; ++row) {
        samples.clear(), amounts.clear();
        for (const Change& c : changes)
            if (c.row == row && c.amount != 0.0) samples.push_back(K.row(c.sample)), amounts.push_back(c.amount);
        accumulate(samples.data(), static_cast<int>(samples.size()), K.size(), amounts.data(),
                   &movement[static_cast<std::size_t>(row) * stride]);
    }
    for (const Change& c : changes) curvature += movement[at(c)] * c.amount;
    const double t = curvature > -slope ? -slope / curvature : 1.0;
    for (std::size_t k = 0; k < movement.size(); ++k) gradient[k] += t * movement[k];
    return t;
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
