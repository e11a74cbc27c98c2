// A Newton step within bounds, by a primal active-set method. Both solvers of a tile use it; they differ in what they call a
// variable, a tie and a bound.
//
//     min over x   1/2 (x - x0)' H (x - x0) + g' (x - x0)
//     s.t.         the sum of x over each tie   = the sum of x0 over it
//                  the sum of x over each bound's range   is within [low, high]
//
// given the point x0 with its gradient g, and the Hessian H. Ties and bounds are on ranges of variables.
//
// Let P = H^{-1}. Without constraints the minimum is at x - P g. To *hold* the sum over a range, which a marks, put u = P a and
// P <- P - u u' / a'u. The sums of the ties are held from the start. Then go towards the minimum by the largest part t <= 1 of
// the way that the bounds allow (the ratio test), which makes g <- (1 - t) g; hold the bound that ended the step; and so on. P
// itself is never formed: only its product with g is needed, and the u of the sums that are held. So Newton's direction is never
// clipped, which would spoil it where H is ill-conditioned.
//
// The factor is that of S H S + ridge. S = diag(1 / sqrt(K_ii)), i the sample of a variable, so that samples of very different
// size do each other no harm.
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
    double sum(const std::vector<double>& x) const { return std::accumulate(x.begin() + first, x.begin() + last, 0.0); }
};

struct Bound {
    Range range;
    double at, low, high;  // at: the sum of x over the range
    double change = 0.0;   // of that sum, on the way to the minimum
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
    void clear() { gradient.clear(), scale.clear(), ties.clear(), bounds.clear(), held.clear(); }

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

    // Go to the minimum, or until more than `most_met` bounds are met: so far from x0, further ones are stale guesses. Returns
    // the number of bounds that were met.
    int minimise(int most_met) {
        product = gradient;
        apply_inverse(product);
        for (const Range& tie : ties) hold(tie);
        int n_met = 0;
        while (true) {
            double t = 1.0;
            Bound* blocking = nullptr;
            for (Bound& bound : bounds) {
                bound.change = bound.met ? 0.0 : -bound.range.sum(product);
                if (std::abs(bound.change) * t > bound.room()) t = bound.room() / std::abs(bound.change), blocking = &bound;
            }
            for (double& value : product) value -= t * value;
            for (Bound& bound : bounds) bound.at += t * bound.change;
            if (!blocking) return n_met;
            blocking->met = true;
            blocking->at = blocking->change > 0.0 ? blocking->high : blocking->low;
            if (++n_met > most_met || !hold(blocking->range)) return n_met;
        }
    }

private:
    struct Held {  // the sum over a range
        Range range;
        double pivot;                // a'u
        std::vector<double> column;  // u

        // x <- x - u a'x / a'u
        void take_out_of(std::vector<double>& x) const {
            const double share = range.sum(x) / pivot;
            for (std::size_t v = 0; v < x.size(); ++v) x[v] -= share * column[v];
            if (range.last == range.first + 1) x[range.first] = 0.0;  // exactly, so that the variable stays where it is
        }
    };

    // Hold the sum of x over a range from now on. False if the sums that are held already leave it no room, up to rounding.
    bool hold(const Range& range) {
        std::vector<double> column(size(), 0.0);
        std::fill(column.begin() + range.first, column.begin() + range.last, 1.0);
        apply_inverse(column);
        const double unheld = range.sum(column);
        for (const Held& other : held) other.take_out_of(column);
        const double pivot = range.sum(column);
        if (!(pivot > rank_tolerance * unheld)) return false;
        held.push_back({range, pivot, std::move(column)});
        held.back().take_out_of(product);
        return true;
    }

    // x <- H^{-1} x
    void apply_inverse(std::vector<double>& x) const {
        for (std::size_t v = 0; v < x.size(); ++v) x[v] *= scale[v];
        blas::cholesky_solve(size(), 1, matrix.data(), x.data());
        for (std::size_t v = 0; v < x.size(); ++v) x[v] *= scale[v];
    }

    std::vector<double> matrix, product;  // product: P g
    std::vector<Held> held;
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
