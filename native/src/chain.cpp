#include "maxmargin/chain.hpp"

#include <algorithm>
#include <cmath>
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
// the bounds, the whole solution grows with the box; else only the variables at a bound move with it.
void carry_over(const Chain& chain, const Link& before, const Link& link) {
    double old = 0.0, now = 0.0, bound = 0.0, free = 0.0;
    std::vector<char> at_bound(chain.size);
    for (int i = 0; i < chain.size; ++i) {
        old += before.upper[i] - before.lower[i];
        now += link.upper[i] - link.lower[i];
        at_bound[i] = before.beta[i] == before.lower[i] || before.beta[i] == before.upper[i];
        (at_bound[i] ? bound : free) += std::abs(before.beta[i]);
    }
    const double growth = old > 0.0 ? now / old : 1.0, of_free = bound >= free ? growth : 1.0;
    std::vector<double> distance(chain.size);
    for (int i = 0; i < chain.size; ++i) {
        link.beta[i] = std::clamp((at_bound[i] ? growth : of_free) * before.beta[i], link.lower[i], link.upper[i]);
        distance[i] = std::abs(before.gradient[i] - before.proof.level);
    }
    if (chain.coupled) balance(link, link.beta, distance);
}

// The gradient at a point, from the matrix; returns a bound on the error of its entries.
double compute_gradient(const Chain& chain, const double* beta, double* gradient) {
    std::vector<std::int32_t> rows;
    std::vector<double> weights, sums(chain.size);
    double size = 0.0;
    for (int i = 0; i < chain.size; ++i)
        if (beta[i] != 0.0) rows.push_back(i), weights.push_back(beta[i]), size += std::abs(beta[i]);
    accumulate_from(chain.matrix, chain.stride, rows.data(), weights.data(), static_cast<std::int64_t>(rows.size()), 0,
                    chain.size, sums.data());
    for (int i = 0; i < chain.size; ++i) gradient[i] = sums[i] + chain.linear[i];
    return (chain.rounding + static_cast<double>(rows.size()) * unit_roundoff) * chain.largest * size;
}

// Whether the problem was solved: its certificate has reached the tolerances.
bool solve(const Chain& chain, const Tile<double>& tile, Link& link, const Deadline& deadline) {
    const std::vector<int> edges = chain.coupled ? std::vector<int>{0, chain.size} : std::vector<int>{};
    const ClaimedPoint point{nullptr,   chain.size, chain.linear,  link.lower, link.upper,
                             link.beta, nullptr,    chain.coupled, link.terms};
    std::vector<double> error(chain.size);
    compute_gradient(chain, link.beta, link.gradient);
    double tol = chain.tol;
    for (int turn = 0; turn < most_tightenings && !deadline.passed(); ++turn) {
        TileProblem<double> problem{tile, link.lower, link.upper, link.beta, link.gradient, edges, tol, steps_at_once, deadline};
        const TileResult result = loops<double>().solve_tile(problem);
        link.steps += result.steps;
        std::fill(error.begin(), error.end(), compute_gradient(chain, link.beta, link.gradient));
        link.proof = prove(point, link.gradient, error.data());
        const double size = std::max(std::abs(link.proof.dual + link.proof.gap), std::abs(link.proof.dual));
        const double relative_gap = link.proof.gap / std::max(size, std::numeric_limits<double>::min());
        if (link.proof.violation <= chain.tol && relative_gap <= chain.gap_tol) return true;
        if (result.steps == 0 && turn > 0) return false;
        if (link.proof.violation <= tol)
            tol = std::min(tol, link.proof.violation) *
                  std::clamp(target_share * chain.gap_tol / relative_gap, least_reduction, target_share);
    }
    return false;
}

}  // namespace

int solve_chain(const Chain& whole, std::vector<Link>& links, const Deadline& deadline) {
    Tile<double> tile;
    Chain chain = whole;
    if (!whole.members) {
        tile.make_view(whole.matrix, whole.size);
    } else {
        fill_tile_from(whole.matrix, whole.stride, whole.members, whole.size, tile);
        chain.matrix = tile.row(0);
        chain.stride = tile.stride();
    }
    for (std::size_t k = 0; k < links.size(); ++k) {
        if (k > 0)
            carry_over(chain, links[k - 1], links[k]);
        else
            std::fill_n(links[k].beta, chain.size, 0.0);
        if (!solve(chain, tile, links[k], deadline)) return static_cast<int>(k);
    }
    return static_cast<int>(links.size());
}

}  // namespace maxmargin
