// The solver of a TileProblem: pair steps (pair_steps.hpp), and a Newton step over the free variables (active_set_newton.hpp)
// whenever the pair steps since the last one have cost a few times as much as it does.
//
//     min over beta   1/2 (beta - beta0)' K (beta - beta0) + G' (beta - beta0)
//     s.t.            lower <= beta <= upper,   sum(beta) = sum(beta0) over each group
//
// given the gradient G at beta0. A variable is *free* if it is strictly between its bounds. The variables of a Newton step are
// the free ones, its ties are the groups, and each variable has its box.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "active_set_newton.hpp"
#include "maxmargin/pace.hpp"
#include "maxmargin/team.hpp"
#include "maxmargin/threads.hpp"
#include "maxmargin/tile_problem.hpp"
#include "pair_steps.hpp"
#include "tolerances.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr long steps_of_crew = 1024, steps_of_trial = 128;  // pair steps between two looks at the clock
constexpr double longer_patience = 4.0;                     // factor on that after a Newton step that rounding has prevented
constexpr double pairs_first = 1.5;  // pair steps before a Newton step, in units of its cost: most tiles end before
constexpr double overdue = 0.25;     // share of that after which a solve that runs out of steps ends with a Newton step
constexpr int most_fixed = 256;      // variables that a Newton step over free variables fixes at a bound
constexpr long steps_to_polish_one = 10, steps_to_polish = 100;  // for each variable, and besides
constexpr int attempts_to_balance = 16;                          // variables that take what rounding and clipping leave of a sum

template <class T>
class TileSolver {
public:
    explicit TileSolver(TileProblem<T>& problem) : p(problem), K(problem.K), pairs(problem), pace(K.lazy() ? 0 : K.size()) {}

    TileResult solve() {
        TileResult result;
        minimise(result);
        if (pairs.violation() <= p.tolerance) polish(result);
        pairs.finish(result);
        return result;
    }

private:
    // Pair steps, and Newton steps when they are due, until the violation is within the tolerance.
    void minimise(TileResult& result) {
        const long stretch = K.size() < Pace::fewest_variables ? steps_per_look : steps_of_crew;
        while (true) {
            const double enough = patience * std::max(cost_of_last_newton, cost_of_newton());
            const double due = 1.0 + std::max(0.0, enough - spent) / cost_of_pair();  // steps
            const long most = std::min(stretch, p.max_steps - result.steps);
            const long steps = make_pair_steps(due < static_cast<double>(most) ? static_cast<long>(due) : most);
            result.steps += steps;
            spent += static_cast<double>(steps) * cost_of_pair();
            if (pairs.violation() <= p.tolerance || pairs.ended() || p.deadline.passed()) return;
            const bool last = result.steps >= p.max_steps;
            if (spent > (last ? overdue : 1.0) * enough) {
                spent = 0.0;
                if (p.deadline.allows(1e-9 * cost_of_newton()))
                    patience = minimise_over_free() ? pairs_first : longer_patience * patience;
            }
            if (last) return;
        }
    }

    // Go on from the tolerance, which is reached, to what rounding allows.
    void polish(TileResult& result) {
        const double tolerance = std::max(p.polish, rounding_of_gradient());
        if (tolerance >= p.tolerance) return;
        p.tolerance = tolerance;
        p.max_steps = result.steps + steps_to_polish_one * K.size() + steps_to_polish;
        minimise(result);
        if (spent > 0.0 && minimise_over_free()) minimise(result);  // pair steps leave variables beside a bound that belong on it
    }

    // A smaller violation tells nothing, and might not be reached.
    double rounding_of_gradient() const {
        double mass = 0.0, widest = 0.0;
        for (int k = 0; k < K.size(); ++k) {
            mass += std::abs(p.beta[k]);
            widest = std::max(widest, static_cast<double>(pairs.diagonal(k)));
        }
        return std::numeric_limits<double>::epsilon() * mass * widest;
    }

    // So many pair steps, or fewer if they have reached the tolerance or come to an end, by as many threads as are fastest.
    long make_pair_steps(long most) {
        long steps = 0;
        if (p.deadline.passed()) most = 0;
        do {
            const auto begun = std::chrono::steady_clock::now();
            const long some = pairs.make(std::min(most - steps, pace.on_trial() ? steps_of_trial : most), pace.size());
            if (pace.has_choice())
                pace.note(some, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
            steps += some;
        } while (steps < most && pairs.violation() > p.tolerance && !pairs.ended());
        return steps;
    }

    // Costs in nanoseconds, from measurements. An error by a factor of two matters little: neither method can waste much more
    // time than the other uses.
    double cost_of_pair() const { return 120.0 + 0.6 * K.size(); }
    double cost_of_newton() const {
        const double f = pairs.n_free(), m = K.size();
        return f * f * (0.015 * f + 1.5) + f * (0.5 * m + 100.0) + 20.0 * m;
    }

    // Returns false if rounding errors prevent the step.
    bool minimise_over_free() {
        cost_of_last_newton = cost_of_newton();
        state_newton();
        const int f = newton.size();
        if (f < 2) return true;  // nothing to do now
        bool found = false;
        const auto minimise = [&](Team& members) {
            found = newton.factor(
                ridge_of_free(),
                [&](int a, double* column) {
                    const T* K_a = K.row(free[a]);
                    for (int b = a; b < f; ++b) column[b] = K_a[free[b]];
                },
                members);
            if (found) cost_of_last_newton += f * (0.1 * f + 40.0) * newton.minimise(most_fixed, members);
        };
        Team::gather(members_of_newton(f), minimise);
        return found && move_free();
    }

    void state_newton() {
        free.clear(), newton.clear();
        for (int k = 0; k < K.size(); ++k) {
            if (!pairs.is_free(k)) continue;
            const int a = newton.size();
            free.push_back(k);
            newton.gradient.push_back(pairs.gradient()[k]);
            newton.scale.push_back(1.0 / std::sqrt(static_cast<double>(std::max(pairs.diagonal(k), least_curvature))));
            newton.bounds.push_back({{a, a + 1}, p.beta[k], p.lower[k], p.upper[k]});
        }
        auto position = [&](int k) { return static_cast<int>(std::lower_bound(free.begin(), free.end(), k) - free.begin()); };
        for (int g = 0; g < p.n_groups(); ++g) {
            const Range tie{position(p.edges[g]), position(p.edges[g + 1])};
            newton.ties.push_back(tie);
            if (tie.first == tie.last) continue;
            // Where a sum is kept, a level changes nothing. That of the variable with the least curvature keeps it from the
            // largest steps, which would cost the others their digits: a sample of zeros has no curvature at all.
            const auto flattest = std::max_element(newton.scale.begin() + tie.first, newton.scale.begin() + tie.last);
            const double level = newton.gradient[flattest - newton.scale.begin()];
            for (int a = tie.first; a < tie.last; ++a) newton.gradient[a] -= level;
        }
    }

    double ridge_of_free() const {
        const bool has_box = std::none_of(free.begin(), free.end(), [&](int k) { return p.upper[k] - p.lower[k] >= unbounded; });
        return sizeof(T) == 4 || has_box ? ridge<T> : std::max(ridge<T>, ridge_without_bounds * newton.size());
    }

    bool move_free() {
        if (!settle()) return false;
        changes.clear();
        double slope = 0.0;  // of gradients less a level, because rounding leaves something of the sum of the changes
        for (int a = 0; a < newton.size(); ++a) {
            changes.push_back({0, free[a], newton.bounds[a].at - p.beta[free[a]]});
            slope += newton.gradient[a] * changes[a].amount;
        }
        const double t = search_along(changes, slope, K, pairs.gradient(), 1, pairs.stride());
        if (t == 0.0) return false;
        if (t < 1.0) {
            for (int a = 0; a < newton.size(); ++a) {
                Bound& bound = newton.bounds[a];
                bound.at = std::clamp(p.beta[free[a]] + t * changes[a].amount, bound.low, bound.high);
            }
            settle();
        }
        for (int a = 0; a < newton.size(); ++a) pairs.set(free[a], newton.bounds[a].at);
        pairs.look_again();
        return true;
    }

    // Let variables that are short of a bound by rounding only meet it, and keep the sums. False if they cannot be kept.
    bool settle() {
        double size = 0.0;
        for (const Bound& bound : newton.bounds) size += std::abs(bound.at);
        for (Bound& bound : newton.bounds) {
            if (bound.at - bound.low <= rounding_of_newton * size) bound.at = bound.low;
            if (bound.high - bound.at <= rounding_of_newton * size) bound.at = bound.high;
        }
        return std::all_of(newton.ties.begin(), newton.ties.end(), [&](const Range& tie) { return balance(tie); });
    }

    // Make the variables of a tie add up to their present sum: one with the most room takes the difference, if possible one that
    // has met no bound. False if they cannot, because a step that rounding has spoilt was clipped.
    bool balance(const Range& tie) {
        for (int attempt = 0; attempt < attempts_to_balance; ++attempt) {
            double amiss = 0.0, size = 0.0, most = 0.0;
            Bound* widest = nullptr;
            for (int a = tie.first; a < tie.last; ++a) {
                amiss += newton.bounds[a].at - p.beta[free[a]];
                size += std::abs(newton.bounds[a].at) + std::abs(p.beta[free[a]]);
            }
            if (std::abs(amiss) <= rounding_of_sum * size) return true;
            for (int a = tie.first; a < tie.last; ++a) {
                Bound& bound = newton.bounds[a];
                bound.change = -amiss;
                const bool met = bound.at == bound.low || bound.at == bound.high;
                const bool was_met = widest && (widest->at == widest->low || widest->at == widest->high);
                if (bound.room() > 0.0 && (!widest || met < was_met || (met == was_met && bound.room() > most)))
                    most = bound.room(), widest = &bound;
            }
            if (!widest) return false;
            widest->at = std::clamp(widest->at - amiss, widest->low, widest->high);
        }
        return false;
    }

    TileProblem<T>& p;
    const Tile<T>& K;
    PairSteps<T> pairs;
    Pace pace;
    ActiveSetNewton newton;
    std::vector<int> free;  // the variables of the Newton step
    std::vector<Change> changes;
    double cost_of_last_newton = 0.0;
    double spent = 0.0;  // time on pair steps since the last Newton step, in nanoseconds
    double patience = pairs_first;
};

template <class T>
TileResult solve_tile(TileProblem<T>& problem) {
    return TileSolver<T>(problem).solve();
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
