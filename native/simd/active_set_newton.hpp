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
// the way that the bounds allow (the ratio test), which makes g <- (1 - t) g; hold the bound that ended the step; and so on. So
// Newton's direction is never clipped, which would spoil it where H is ill-conditioned.
//
// P itself is never formed: only its product with g is needed, and the u of the sums that are held. With the P from before any
// sum was held, u = P a - sum over the held sums j of u_j (u_j' a) / a_j'u_j. The ratio test foretells which bounds are met next,
// and P a is computed for some of these together: the factor is read once for all of them, which is what costs the time.
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

#include "maxmargin/cholesky.hpp"
#include "maxmargin/team.hpp"
#include "maxmargin/threads.hpp"
#include "maxmargin/tile_problem.hpp"
#include "pairings.hpp"
#include "tolerances.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr int fewest_for_team = 1024, variables_per_member = 256;  // variables of a Newton step

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

// The number of threads for a Newton step: one if that takes only some milliseconds, in which a thread that has to wait for its
// processor would hold up the others for longer than it helps.
inline int members_of_newton(int n_variables) {
    return n_variables < fewest_for_team ? 1 : std::min(n_variables / variables_per_member, n_threads());
}

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
    bool factor(double added, Fill fill, Team& team) {
        const int n = size();
        const auto fill_column = [&](int v) {
            double* column = matrix.data() + static_cast<std::size_t>(v) * n;
            fill(v, column);
            for (int w = v; w < n; ++w) column[w] *= scale[v] * scale[w];
            column[v] += added;
        };
        for (int attempt = 0; attempt < ridge_attempts; ++attempt, added *= ridge_growth) {
            matrix.resize(static_cast<std::size_t>(n) * n);
            team.share((n + 1) / 2, [&](int first, int last) {  // a long column and a short one at a time
                for (int v = first; v < last; ++v) {
                    fill_column(v);
                    if (n - 1 - v > v) fill_column(n - 1 - v);
                }
            });
            if (cholesky(n, matrix.data(), team)) return true;
        }
        return false;
    }

    // Go to the minimum, or until more than `most_met` bounds are met: so far from x0, further ones are stale guesses. Returns
    // the number of bounds that were met.
    int minimise(int most_met, Team& team) {
        product = gradient;
        apply_inverse(product, team);
        solved.assign(bounds.size(), {});
        for (const Range& tie : ties) {
            std::vector<double> column = marks(tie);
            apply_inverse(column, team);
            hold(tie, std::move(column));
        }
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
            if (++n_met > most_met || !hold(blocking->range, solved_for(*blocking, team))) return n_met;
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
            keep_still(x);
        }
        // A variable that is held by itself stays exactly where it is.
        void keep_still(std::vector<double>& x) const {
            if (range.last == range.first + 1) x[range.first] = 0.0;
        }
    };

    // P a for the range of a bound, as it is before any sum is held. Those of the bounds that the present direction meets next
    // are computed along with it.
    std::vector<double> solved_for(const Bound& blocking, Team& team) {
        const std::size_t wanted = &blocking - bounds.data(), n = gradient.size();
        if (solved[wanted].empty()) {
            next.assign(1, {0.0, wanted});
            for (std::size_t k = 0; k < bounds.size(); ++k)
                if (!bounds[k].met && bounds[k].change != 0.0 && solved[k].empty())
                    next.push_back({bounds[k].room() / std::abs(bounds[k].change), k});
            const auto end = next.begin() + std::min(next.size(), solved_together);
            std::partial_sort(next.begin() + 1, end, next.end());
            block.clear();
            for (auto it = next.begin(); it < end; ++it) {
                const std::vector<double> column = marks(bounds[it->second].range);
                block.insert(block.end(), column.begin(), column.end());
            }
            apply_inverse(block, team);
            for (auto it = next.begin(); it < end; ++it) {
                const auto first = block.begin() + (it - next.begin()) * n;
                solved[it->second].assign(first, first + n);
            }
        }
        return std::move(solved[wanted]);
    }

    // The vector a of a range: one there, zero elsewhere.
    std::vector<double> marks(const Range& range) const {
        std::vector<double> a(size(), 0.0);
        std::fill(a.begin() + range.first, a.begin() + range.last, 1.0);
        return a;
    }

    // Hold the sum of x over a range from now on, given P a. False if the sums that are held already leave it no room, up to
    // rounding.
    bool hold(const Range& range, std::vector<double> column) {
        const double unheld = range.sum(column);
        columns.clear(), shares.clear();
        for (const Held& other : held) {
            columns.push_back(other.column.data());
            shares.push_back(-range.sum(other.column) / other.pivot);
        }
        accumulate(columns.data(), static_cast<int>(columns.size()), size(), shares.data(), column.data());
        for (const Held& other : held) other.keep_still(column);
        const double pivot = range.sum(column);
        if (!(pivot > rank_tolerance * unheld)) return false;
        held.push_back({range, pivot, std::move(column)});
        held.back().take_out_of(product);
        return true;
    }

    // x <- H^{-1} x, for one or several x
    void apply_inverse(std::vector<double>& x, Team& team) const {
        apply_scale(x);
        cholesky_solve(size(), static_cast<int>(x.size() / scale.size()), matrix.data(), x.data(), team);
        apply_scale(x);
    }

    // x <- S x, for one or several x
    void apply_scale(std::vector<double>& x) const {
        for (std::size_t first = 0; first < x.size(); first += scale.size())
            for (std::size_t v = 0; v < scale.size(); ++v) x[first + v] *= scale[v];
    }

    static constexpr std::size_t solved_together = 16;  // vectors P a that are computed together

    std::vector<double> matrix, product;  // product: P g
    std::vector<Held> held;
    std::vector<std::vector<double>> solved;           // P a of the bounds for which it is known, else empty
    std::vector<std::pair<double, std::size_t>> next;  // the bounds that may be met next, and the part of the way to them
    std::vector<double> block, shares;
    std::vector<const double*> columns;
};

// What a Newton step does to the duals: those of a sample, in one row of them for each class or in the only one.
struct Change {
    int row, sample;
    double amount;
};

// Exact line search along the changes, because rounding may have spoilt their direction, given the slope of the objective along
// them. The gradients, in rows of `stride`, move along. Returns the part of the changes to make, at most 1; 0 if the decrease of
// the objective would be only rounding.
template <class T>
double search_along(const std::vector<Change>& changes, double slope, const Tile<T>& K, double* gradient, int n_rows,
                    int stride) {
    auto at = [stride](const Change& c) { return static_cast<std::size_t>(c.row) * stride + c.sample; };
    double size = 0.0, curvature = 0.0;
    for (const Change& c : changes) size += std::abs(c.amount) * std::sqrt(std::max(K.diagonal(c.sample), 0.0));
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
    const double t =
        curvature > -slope * (1.0 + rounding_of_newton) ? -slope / curvature : 1.0;  // changes that meet a bound do so
    for (std::size_t k = 0; k < movement.size(); ++k) gradient[k] += t * movement[k];
    return t;
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
