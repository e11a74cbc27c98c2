#include "maxmargin/chain.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "maxmargin/gram.hpp"
#include "maxmargin/loops.hpp"

namespace maxmargin {
namespace {

constexpr double unit_roundoff = std::numeric_limits<double>::epsilon() / 2;
constexpr double off_balance = 1e-14;  // a sum of duals off by less, relative to their sizes, is a rounding error
constexpr int most_tightenings = 8;    // times that tol is lowered because the gap is too large
constexpr long steps_at_once = 150'000;
constexpr double rounded_entry = 0x1p-24;   // relative error of an entry in float32
constexpr double most_rounding = 20.0;      // an error of gradients by float32 entries, in units of tol, up to which these help
constexpr double above_rounding = 2.0;      // least violation to reach with such entries, in units of that error
constexpr double reserve = 0.9;             // share of tol to reach with such entries, because they are rounded
constexpr double refinement = 0.5;          // factor by which a turn with such entries has to reduce the violation
constexpr int fewest_to_look_first = 1024;  // variables from which on a certificate takes longer than a look at the claim
// As in src/maxmargin/control.py: a tighter tolerance aims at this share of gap_tol, and no reduction is stronger than the
// second.
constexpr double target_share = 0.3, least_reduction = 0.01;

// Move duals until their sum is zero, those with gradients near the level first.
void balance(const Link& link, double* beta, const std::vector<double>& distance) {
    const auto n = static_cast<int>(distance.size());
    double residual = std::accumulate(beta, beta + n, 0.0), size = 0.0;
    for (int i = 0; i < n; ++i) size += std::abs(beta[i]);
    if (std::abs(residual) <= off_balance * size) return;
    std::vector<int> turn(n);
    std::iota(turn.begin(), turn.end(), 0);
    std::sort(turn.begin(), turn.end(), [&](int a, int b) { return distance[a] < distance[b]; });
    for (int i : turn) {
        const double moved = std::clamp(beta[i] - residual, link.lower[i], link.upper[i]);
        residual -= beta[i] - moved;
        beta[i] = moved;
        if (residual == 0.0) return;
    }
}

// A start from the solution of the problem before, which has another box (`DualProblem.carry_over`): if most of the weight is at
// the bounds, the whole solution grows with the box; else only the variables at a bound move with it. Returns the factor on the
// others.
double carry_over(const Chain& chain, const Link& before, const Link& link) {
    double old = 0.0, now = 0.0, bound = 0.0, free = 0.0;
    std::vector<char> at_bound(chain.size);
    for (int i = 0; i < chain.size; ++i) {
        old += before.upper[i] - before.lower[i];
        now += link.upper[i] - link.lower[i];
        at_bound[i] = before.beta[i] == before.lower[i] || before.beta[i] == before.upper[i];
        (at_bound[i] ? bound : free) += std::abs(before.beta[i]);
    }
    const double growth = old > 0.0 && std::isfinite(now / old) ? now / old : 1.0, of_free = bound >= free ? growth : 1.0;
    std::vector<double> distance(chain.size);
    for (int i = 0; i < chain.size; ++i) {
        link.beta[i] = std::clamp((at_bound[i] ? growth : of_free) * before.beta[i], link.lower[i], link.upper[i]);
        distance[i] = std::abs(before.gradient[i] - before.proof.level);
    }
    if (chain.coupled) balance(link, link.beta, distance);
    return of_free;
}

// The sums of the rows of the matrix over some variables, with their weights.
std::vector<double> row_sums(const Chain& chain, const std::vector<std::int32_t>& rows, const std::vector<double>& weights) {
    std::vector<double> sums(chain.size);
    accumulate_from(chain.matrix, chain.stride, rows.data(), weights.data(), static_cast<std::int64_t>(rows.size()), 0,
                    chain.size, sums.data());
    return sums;
}

// The duals that are not zero.
struct Support {
    Support(const double* beta, int size) {
        for (int i = 0; i < size; ++i)
            if (beta[i] != 0.0) rows.push_back(i), weights.push_back(beta[i]), sum += std::abs(beta[i]);
    }
    std::vector<std::int32_t> rows;
    std::vector<double> weights;
    double sum = 0.0;  // of their sizes
};

// The kernel sums at some variables, from the fewest entries: rows of these variables, rows of the support vectors, or half of
// the rows of both.
std::vector<double> sums_at(const Chain& chain, const std::vector<int>& at, const double* beta, const Support& support) {
    std::vector<std::int32_t> rows(at.begin(), at.end()), both;
    std::sort(rows.begin(), rows.end());
    std::set_union(rows.begin(), rows.end(), support.rows.begin(), support.rows.end(), std::back_inserter(both));
    const std::size_t fewest = std::min(rows.size(), support.rows.size());
    std::vector<double> sums(at.size()), all(chain.size, 0.0);
    if (both.size() < 2 * fewest) {
        symmetric_products_from(chain.matrix, chain.stride, both, beta, chain.size, all.data());
    } else if (rows.size() == fewest) {
        products_from(chain.matrix, chain.stride, at.data(), static_cast<std::int64_t>(at.size()), beta, chain.size, sums.data());
        return sums;
    } else {
        all = row_sums(chain, support.rows, support.weights);
    }
    std::transform(at.begin(), at.end(), sums.begin(), [&](int i) { return all[i]; });
    return sums;
}

ClaimedPoint point_of(const Chain& chain, const Link& link) {
    return {nullptr,   chain.size,    chain.linear,  link.lower, link.upper,
            link.beta, link.gradient, chain.coupled, link.terms, link.gradient};
}

// The certificate of a point, from the matrix. The gradient of the solver counts as a claim, and is corrected where it matters.
Proof certify(const Chain& chain, const Link& link) {
    const Support support(link.beta, chain.size);
    const double off = (chain.rounding + static_cast<double>(support.rows.size()) * unit_roundoff) * chain.largest * support.sum;
    return prove(point_of(chain, link), [&](const std::vector<int>& at, double* gradient, double* error) {
        const std::vector<double> sums = sums_at(chain, at, link.beta, support);
        for (std::size_t k = 0; k < at.size(); ++k) gradient[at[k]] = sums[k] + chain.linear[at[k]], error[at[k]] = off;
    });
}

// What a certificate would say if the gradient of the solver were exact. It proves nothing.
Proof prove_claim(const Chain& chain, const Link& link) {
    return prove(point_of(chain, link), [&](const std::vector<int>& at, double* gradient, double* error) {
        for (int i : at) gradient[i] = link.gradient[i], error[i] = 0.0;
    });
}

// The gradient at the start of a problem, from that of the solution before: the start is close to r times that solution.
void carry_gradient_over(const Chain& chain, const Link& before, double r, const Link& link) {
    std::vector<std::int32_t> rows;
    std::vector<double> changes;
    for (int i = 0; i < chain.size; ++i)
        if (const double change = link.beta[i] - r * before.beta[i]; change != 0.0) rows.push_back(i), changes.push_back(change);
    const std::vector<double> sums = row_sums(chain, rows, changes);
    for (int i = 0; i < chain.size; ++i)
        link.gradient[i] = chain.linear[i] + r * (before.gradient[i] - chain.linear[i]) + sums[i];
}

template <class T>
TileResult minimise(const Chain& chain, const Tile<T>& tile, const Link& link, double tol, const Deadline& deadline) {
    const std::vector<int> edges = chain.coupled ? std::vector<int>{0, chain.size} : std::vector<int>{};
    TileProblem<T> problem{tile, link.lower, link.upper, link.beta, link.gradient, edges, tol, steps_at_once, deadline};
    return loops<T>().solve_tile(problem);
}

// By how much float32 entries, which are off independently of each other, put the gradient off.
double rounding_in_float32(const Chain& chain, const double* beta) {
    return rounded_entry * chain.largest * std::sqrt(std::inner_product(beta, beta + chain.size, beta, 0.0));
}

double relative_gap(const Proof& proof) {
    const double size = std::max(std::abs(proof.dual + proof.gap), std::abs(proof.dual));
    return proof.gap / std::max(size, std::numeric_limits<double>::min());
}

// The tolerance to go on with at a point that is within `tol` but whose gap is too large.
double tighter(const Chain& chain, double tol, const Proof& proof) {
    return std::min(tol, proof.violation) *
           std::clamp(target_share * chain.gap_tol / relative_gap(proof), least_reduction, target_share);
}

// Whether the problem was solved: its certificate has reached the tolerances. The gradient is that of the start.
//
// Steps are made with rounded entries first, which lead near the solution. Where the gradient of the solver itself says that the
// gap is too large, they go on. The certificate then corrects the gradient where it matters; from there on, rounding errors are
// in proportion to what the duals still move (iterative refinement). Only if that does not help are steps made with the entries
// themselves.
bool solve(const Chain& chain, const Tile<double>& tile, const Tile<float>& rounded, Link& link, const Deadline& deadline) {
    double tol = chain.tol, last_violation = std::numeric_limits<double>::infinity();
    double least = chain.rounded ? above_rounding * rounding_in_float32(chain, link.beta) : 0.0;
    bool in_float32 = chain.rounded && least <= above_rounding * most_rounding * tol;
    for (int turn = 0; turn < most_tightenings && !deadline.passed(); ++turn) {
        const TileResult result = in_float32 ? minimise(chain, rounded, link, std::max(reserve * tol, least), deadline)
                                             : minimise(chain, tile, link, tol, deadline);
        link.steps += result.steps;
        least = 0.0;
        if (in_float32 && result.violation <= tol && chain.size >= fewest_to_look_first) {
            const Proof claim = prove_claim(chain, link);
            const double next = tighter(chain, tol, claim);
            if (relative_gap(claim) > chain.gap_tol && reserve * next >= above_rounding * rounding_in_float32(chain, link.beta)) {
                tol = next;
                continue;
            }
        }
        link.proof = certify(chain, link);
        if (link.proof.violation <= chain.tol && relative_gap(link.proof) <= chain.gap_tol) return true;
        if (!in_float32 && result.steps == 0 && turn > 0) return false;
        in_float32 = in_float32 && link.proof.violation <= refinement * last_violation;
        last_violation = link.proof.violation;
        if (link.proof.violation <= tol) tol = tighter(chain, tol, link.proof);
    }
    return false;
}

}  // namespace

int solve_chain(const Chain& whole, std::vector<Link>& links, const Deadline& deadline) {
    Tile<double> tile;
    Tile<float> rounded;
    Chain chain = whole;
    if (!whole.members) {
        tile.make_view(whole.matrix, whole.size);
        rounded.make_view(whole.rounded, whole.size);
    } else {
        fill_tile_from(whole.matrix, whole.stride, whole.members, whole.size, tile);
        chain.matrix = tile.row(0);
        chain.stride = tile.stride();
        chain.rounded = nullptr;
    }
    for (std::size_t k = 0; k < links.size(); ++k) {
        if (k > 0) {
            const double r = carry_over(chain, links[k - 1], links[k]);
            carry_gradient_over(chain, links[k - 1], r, links[k]);
        } else {
            std::fill_n(links[k].beta, chain.size, 0.0);
            std::copy_n(chain.linear, chain.size, links[k].gradient);
        }
        if (!solve(chain, tile, rounded, links[k], deadline)) return static_cast<int>(k);
    }
    return static_cast<int>(links.size());
}

}  // namespace maxmargin
