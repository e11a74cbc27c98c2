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
// After as many steps as there are variables, a pair step moves along the directions of the two steps before as well
// (recent_directions.hpp), which saves up to a third of the steps.
//
// Without groups a step moves one variable: the one with the largest decrease G_k^2 / K_kk.
//
// A step goes through all variables twice: to find j, and to move the gradient and find the next i. A large tile is shared by a
// crew of threads (crew.hpp), each with some of the variables, who agree on i and on j.
//
// Variables are compared by their *excess*, the gradient less a level between those that may rise and those that may fall, in
// float32: near the optimum it is a small number with all its digits, and twice as many fit into a register.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "held_out_chunks.hpp"
#include "lanes.hpp"
#include "maxmargin/crew.hpp"
#include "maxmargin/tile_problem.hpp"
#include "minmax.hpp"
#include "recent_directions.hpp"
#include "tolerances.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

template <class T>
class PairSteps {
public:
    explicit PairSteps(TileProblem<T>& problem)
        : p(problem), K(problem.K), m(K.size()), coupled(!problem.edges.empty()), padded(in_chunks(m)), held_out(problem),
          gradient_(padded), diagonal_(padded), free_now(m, 0) {
        for (int d = 0; d < 3 && coupled && !K.lazy(); ++d) {
            storage_[d] = Buffer<T>(padded);
            movements_[d] = storage_[d].data();
            std::fill_n(movements_[d], padded, T(0));
        }
        for (int g = 0; g < std::max(1, p.n_groups()); ++g)  // without groups: one range of all variables
            groups.emplace_back(coupled ? p.edges[g] : 0, coupled ? p.edges[g + 1] : m, padded, held_out);
        for (int c = 0; c < padded / chunk; ++c)
            if (!held_out.contains(c)) moving.push_back(c);
        for (int k = 0; k < padded; ++k) {  // padding cannot move
            gradient_[k] = k < m ? p.gradient[k] : 0.0;
            diagonal_[k] = k < m ? static_cast<T>(K.diagonal(k)) : T(1);
        }
        find_units();
        for (int k = 0; k < m; ++k) n_free_ += note_bounds(k);
        look_again();
    }

    // Make at most so many steps, by a crew of this size, until the violation is within the tolerance; returns their number. It
    // is smaller, too, if the crew was held up or the steps have `ended`.
    long make(long most, int crew_size) {
        long made = 0;
        Crew<Offers>::gather(coupled ? crew_size : 1, [&](Member& member) {
            const long steps = coupled ? step_pairs(member, most) : step_variables(most);
            if (member.number == 0) made = steps;
        });
        return made;
    }

    double violation() const { return violation_; }
    bool ended() const { return ended_; }  // because the next step would be below rounding
    bool is_free(int k) const { return free_now[k]; }
    int n_free() const { return n_free_; }
    double* gradient() { return gradient_.data(); }
    float diagonal(int k) const { return static_cast<float>(diagonal_[k]); }
    int stride() const { return padded; }

    // Other steps move variables by `set` and the gradient themselves, and then call `look_again`.
    void set(int k, double value) {
        p.beta[k] = value;
        n_free_ += note_bounds(k);
    }
    void look_again() {
        levels = {};
        for (int turn = 0; turn < 2 && coupled; ++turn) {  // first to find the levels, then to compare excesses over them
            lowest = move_gradient(all(), K.row(0), K.row(0), {}, {}, levels);
            for (std::size_t g = 0; g < groups.size(); ++g)
                if (lowest.of[g].exists()) levels[g] = lowest.of[g].gradient;
        }
        ended_ = false;
        directions_ = {};
    }

    // Write the gradient, and what is known of the point.
    void finish(TileResult& result) {
        held_out.catch_up(gradient_.data());
        std::copy_n(gradient_.data(), m, p.gradient);
        result.violation = violation_;
        result.lowest_curvature = lowest_curvature;
        if (coupled && lowest.of[0].exists()) result.level = lowest.of[0].gradient + 0.5 * violation_of_first_group;
    }

private:
    static constexpr std::size_t size_of_cache = 1 << 20;  // bytes: a second-level cache of today
    static constexpr int chunks_ahead = 16;                // how early a chunk is asked for, if it is not in the cache
    // The excess of a variable that may not move that way; larger than any other, unless the problem has no minimum and gradients
    // grow beyond float32. What is found is therefore looked at once more before it is moved.
    static constexpr float none = 1e37f;

    // The variables of one equality constraint, and in which directions they may move. Other variables may not move, so that a
    // chunk with variables of two groups can be scanned for either group.
    struct Group {
        Group(int first, int last, int padded, const HeldOutChunks<T>& held_out)
            : last(last), may_rise(padded), may_fall(padded), falling(padded) {
            std::fill_n(may_rise.data(), padded, none);
            std::fill_n(may_fall.data(), padded, -none);
            for (int c = first / chunk; c < in_chunks(last) / chunk; ++c)
                if (!held_out.contains(c)) chunks.push_back(c);
        }
        int last;                          // variable
        std::vector<int> chunks;           // the chunks the variables are in, without those that are held out
        Buffer<float> may_rise, may_fall;  // added to the excess: zero for variables that may
        Buffer<float> falling;             // excesses of the variables that may fall
    };

    // A variable that could be i, with the least excess; or j, with the largest gain.
    struct Offer {
        float rating = none, violation = 0.0f;
        int k = 0;
        T diagonal = 0;
        double gradient = 0.0, up = 0.0, down = 0.0;  // up, down: how far the variable may move
        bool exists() const { return rating < none; }
    };
    struct Offers {
        Offer of[2];  // one for each group
    };
    using Member = typename Crew<Offers>::Member;
    using Levels = std::array<double, 2>;
    using Movements = std::array<T*, 3>;  // K d for the new direction and the two before

    struct Share {  // of the variables: those of some chunks
        int first_chunk, end_chunk;
        bool contains(int k) const { return k >= first_chunk * chunk && k < end_chunk * chunk; }
    };

    Share all() const { return {0, padded / chunk}; }
    Share share_of(const Member& member) const {
        const auto edge = [&](int number) {
            return number == member.size ? padded / chunk
                                         : moving[moving.size() * static_cast<std::size_t>(number) / member.size];
        };
        return moving.empty() ? all() : Share{edge(member.number), edge(member.number + 1)};
    }

    // Returns by how many the number of free variables has grown.
    int note_bounds(int k) {
        const bool rises = p.beta[k]<p.upper[k], falls = p.beta[k]> p.lower[k];
        Group& group = k < groups[0].last ? groups[0] : groups.back();
        group.may_rise[k] = rises ? 0.0f : none;
        group.may_fall[k] = falls ? 0.0f : -none;
        const int before = free_now[k];
        free_now[k] = rises && falls;
        return free_now[k] - before;
    }

    // Gains are squares of excesses over curvatures, in float32. In units in which the gradients are about one, and with
    // curvatures not too far below the largest, they stay within its range.
    void find_units() {
        double largest = 0.0;
        T widest = 0, least = 0;
        for (int k = 0; k < m; ++k) {
            largest = std::max(largest, std::abs(gradient_[k]));
            widest = std::max(widest, std::abs(diagonal_[k]));
            least = std::min(least, diagonal_[k]);
        }
        unit = largest > 0.0 ? 1.0 / largest : 1.0;
        const float floor = std::max(curvature_floor_of_tile * static_cast<float>(widest), least_curvature);
        floor_of_all = floor - 4.0f * curvature_floor * static_cast<float>(least);  // positive
    }

    double floor_of(double diagonals) const { return curvature_floor * std::max(diagonals, 0.0) + floor_of_all; }

    // --- with groups ----------------------------------------------------------------------------------------------------------

    // The steps of one member of a crew. All members make the same decisions; what follows from them each does for its own share.
    long step_pairs(Member& member, long most) {
        const Share share = share_of(member);
        Levels level = levels;
        Offers i = lowest, j;
        RecentDirections<T> directions = directions_;
        Movements movements = movements_;
        const long made_before = made_;
        int freed = 0;
        bool below_rounding = false;
        const auto better = [this](const Offers& a, const Offers& b) { return better_of(a, b); };
        const auto move = [&](int k, double by, double to) {
            if (!share.contains(k)) return;
            held_out.note_step(k, by);
            p.beta[k] = to;
            freed += note_bounds(k);
        };
        long step = 0;
        for (;; ++step) {
            j = member.agree(find_partners(share, i), better);
            const int g = better_group(j);
            if (worst(j) <= p.tolerance || step == most || member.disturbed()) break;
            const Offer &rising = i.of[g], &falling = j.of[g];
            const T *K_i = K.row(rising.k), *K_j = K.row(falling.k);
            const double diagonals = static_cast<double>(rising.diagonal) + falling.diagonal, floor = floor_of(diagonals);
            const double met = diagonals - 2.0 * K_i[falling.k], slope = falling.gradient - rising.gradient;
            below_rounding = !falling.exists() || !(slope > 0.0);
            if (below_rounding) break;
            if (met < 0.0 && member.number == 0) lowest_curvature = std::min(lowest_curvature, met / std::max(diagonals, floor));
            std::array<double, 2> across{};
            for (int d = 0; d < directions.known(); ++d)
                across[d] = static_cast<double>(movements[d + 1][rising.k]) - movements[d + 1][falling.k];
            directions.minimise({rising.k, rising.up, rising.down}, {falling.k, falling.up, falling.down}, slope,
                                std::max(met, floor), met > floor && made_before + step >= fewest_to_remember, across);
            const double t = directions.length(0);
            below_rounding = !(t > 0.0);
            if (below_rounding) break;
            if (directions.is_plain()) {
                move(rising.k, t, reaches(t, rising.up) ? p.upper[rising.k] : p.beta[rising.k] + t);
                move(falling.k, -t, reaches(t, falling.down) ? p.lower[falling.k] : p.beta[falling.k] - t);
            } else {
                directions.visit_moves([&](int k, double by) { move(k, by, p.beta[k] + by); });
            }
            level[g] = 0.5 * (rising.gradient + falling.gradient);
            i = member.agree(move_gradient(share, K_i, K_j, directions, movements, level), better);
            directions.advance();
            movements = {movements[2], movements[0], movements[1]};
        }
        n_free_ += freed;
        if (member.number == 0) {
            made_ += step, levels = level, lowest = i, directions_ = directions, movements_ = movements;
            violation_ = worst(j), violation_of_first_group = j.of[0].violation / unit;
            ended_ = below_rounding;
        }
        return step;
    }

    double worst(const Offers& j) const { return std::max(j.of[0].violation, j.of[1].violation) / unit; }
    static int better_group(const Offers& j) { return j.of[1].rating < j.of[0].rating; }

    // The better offer of each group, of equal ones that of the first variable.
    Offers better_of(const Offers& a, const Offers& b) const {
        Offers best;
        for (std::size_t g = 0; g < groups.size(); ++g) {
            const Offer &one = a.of[g], &other = b.of[g];
            best.of[g] = other.rating < one.rating || (other.rating == one.rating && other.k < one.k) ? other : one;
            best.of[g].violation = std::max(one.violation, other.violation);
        }
        return best;
    }

    Offer offer_of(Found found, float violation = 0.0f) const {
        const int k = found.place;
        const double up = p.upper[k] - p.beta[k], down = p.beta[k] - p.lower[k];
        return {found.value, violation, k, diagonal_[k], gradient_[k], up, down};
    }

    // Call `visit(c)` for the chunks of a group that belong to a share. `row` is what it reads of the tile, which comes from
    // memory if the tile is large: so the entries are asked for some chunks ahead.
    template <class Visit>
    void visit_chunks(const Group& group, const Share& share, const T* row, Visit visit) const {
        const auto begin = std::lower_bound(group.chunks.begin(), group.chunks.end(), share.first_chunk);
        const auto end = std::lower_bound(begin, group.chunks.end(), share.end_chunk);
        const auto lead = fits_into_cache ? end - begin : std::min<std::ptrdiff_t>(chunks_ahead, end - begin);
        if (!fits_into_cache)
            for (auto c = begin; c < begin + lead; ++c) fetch(row + *c * chunk);
        for (auto c = begin; c < end; ++c) {
            if (end - c > lead) fetch(row + c[lead] * chunk);
            visit(*c);
        }
    }

    // Always inline, because GCC takes a function that only fetches for one without effect.
    [[gnu::always_inline]] static void fetch(const T* part_of_row) {
        constexpr int line = 64 / static_cast<int>(sizeof(T));
        for (int k = 0; k < chunk; k += line) __builtin_prefetch(part_of_row + k);
    }

    // j of each group: the largest gain of a pair with i.
    Offers find_partners(const Share& share, const Offers& i) const {
        Offers found;
        for (std::size_t g = 0; g < groups.size(); ++g)
            if (i.of[g].exists()) found.of[g] = find_partner(groups[g], share, i.of[g]);
        return found;
    }

    Offer find_partner(const Group& group, const Share& share, const Offer& i) const {
        const T *K_i = K.row(i.k), *diagonal = diagonal_.data();
        const float *falling = group.falling.data(), floor = floor_of_all + curvature_floor * static_cast<float>(i.diagonal);
        const Floats lowest_excess = i.rating - Floats{}, zero{};
        LeastOfLanes least(0.0f);  // of the gains, negative
        Floats largest[sets] = {};
        visit_chunks(group, share, K_i, [&](int c) {
            const int at = c * chunk;
            alignas(vector_bytes) float curvature[chunk];  // negative
            curvatures_with(K_i + at, diagonal + at, i.diagonal, floor, curvature);
#pragma GCC unroll 4
            for (int first = 0; first < chunk; first += strip) {
                const Places places = places_from(at + first);
#pragma GCC unroll 4
                for (int s = 0; s < sets; ++s) {
                    const int k = first + s * lanes;
                    const Floats excess = larger_of(load(falling + at + k) - lowest_excess, zero);
                    least.look(s, excess * excess / load(curvature + k), places);
                    largest[s] = larger_of(largest[s], excess);
                }
            }
        });
        const Found best = least.found();
        for (int s = 1; s < sets; ++s) largest[0] = larger_of(largest[0], largest[s]);
        const float violation = largest_lane(largest[0]);
        const bool falls = best.value < 0.0f && group.may_fall[best.place] == 0.0f;
        return falls ? offer_of(best, violation) : Offer{none, violation};
    }

    static void curvatures_with(const T* K_i, const T* diagonal, T own, float floor, float* curvature) {
#pragma omp simd
        for (int k = 0; k < chunk; ++k) {
            // in T: a float64 entry may be too small for a normal float, and arithmetic with the others takes many times as long
            const T met = T(2) * K_i[k] - (own + diagonal[k]);
            curvature[k] = smaller(static_cast<float>(met), -floor - curvature_floor * static_cast<float>(diagonal[k]));
        }
    }

    // G += the lengths of the step times the movements along its directions, of which the new one is a - b; and the next i of
    // each group.
    Offers move_gradient(const Share& share, const T* a, const T* b, const RecentDirections<T>& directions,
                         const Movements& movements, const Levels& level) {
        Offers found;
        const double t = directions.length(0);
        int moved = -1;  // the last chunk that has been moved: it may belong to both groups
        for (std::size_t g = 0; g < groups.size(); ++g) {
            Group& group = groups[g];
            const float *may_rise = group.may_rise.data(), *may_fall = group.may_fall.data();
            float* falling = group.falling.data();
            double* G = gradient_.data();
            const double unit_ = unit, shift = -level[g] * unit;
            LeastOfLanes least(10.0f * none);
            visit_chunks(group, share, b, [&](int c) {  // a was read for the choice of the pair
                const int at = c * chunk;
                alignas(vector_bytes) float excess[chunk];
                if (c <= moved || t == 0.0)
                    take_excess(G + at, unit_, shift, excess);
                else if (directions.is_forgotten())
                    move_chunk(G + at, a + at, b + at, t, unit_, shift, excess);
                else if (directions.is_plain())
                    move_chunk(G + at, a + at, b + at, movements[0] + at, t, unit_, shift, excess);
                else
                    move_chunk(G + at, a + at, b + at, movements[0] + at, movements[1] + at, movements[2] + at, directions, unit_,
                               shift, excess);
#pragma GCC unroll 4
                for (int first = 0; first < chunk; first += strip) {
                    const Places places = places_from(at + first);
#pragma GCC unroll 4
                    for (int s = 0; s < sets; ++s) {
                        const int k = first + s * lanes;
                        least.look(s, load(excess + k) + load(may_rise + at + k), places);
                        store(load(excess + k) + load(may_fall + at + k), falling + at + k);
                    }
                }
                moved = std::max(moved, c);
            });
            const Found lowest_one = least.found();
            if (lowest_one.value < 0.5f * none && may_rise[lowest_one.place] == 0.0f) found.of[g] = offer_of(lowest_one);
        }
        return found;
    }

    static void take_excess(const double* G, double unit, double shift, float* excess) {
#pragma omp simd
        for (int k = 0; k < chunk; ++k) excess[k] = static_cast<float>(G[k] * unit + shift);
    }

    static void move_chunk(double* G, const T* a, const T* b, double t, double unit, double shift, float* excess) {
#pragma omp simd
        for (int k = 0; k < chunk; ++k) {
            G[k] += t * static_cast<double>(a[k] - b[k]);
            excess[k] = static_cast<float>(G[k] * unit + shift);
        }
    }

    static void move_chunk(double* G, const T* a, const T* b, T* movement, double t, double unit, double shift, float* excess) {
#pragma omp simd
        for (int k = 0; k < chunk; ++k) {
            movement[k] = a[k] - b[k];
            G[k] += t * static_cast<double>(movement[k]);
            excess[k] = static_cast<float>(G[k] * unit + shift);
        }
    }

    static void move_chunk(double* G, const T* a, const T* b, T* movement, const T* one, const T* two,
                           const RecentDirections<T>& directions, double unit, double shift, float* excess) {
        const T t = directions.length(0), t_one = directions.length(1), t_two = directions.length(2);
#pragma omp simd
        for (int k = 0; k < chunk; ++k) {
            movement[k] = a[k] - b[k];
            G[k] += static_cast<double>(t * movement[k] + (t_one * one[k] + t_two * two[k]));
            excess[k] = static_cast<float>(G[k] * unit + shift);
        }
    }

    // --- without groups -------------------------------------------------------------------------------------------------------

    long step_variables(long most) {
        Offer best = move_and_rate(K.row(0), 0.0);
        for (long step = 0;; ++step) {
            violation_ = best.violation / unit;
            if (violation_ <= p.tolerance || step == most) return step;
            const double curvature = std::max(static_cast<double>(best.diagonal), static_cast<double>(least_curvature));
            const double t = std::clamp(-best.gradient / curvature, -best.down, best.up), before = p.beta[best.k];
            ended_ = !best.exists() || t == 0.0;
            if (ended_) return step;
            if (best.diagonal < T(0)) lowest_curvature = -1.0;
            const bool is_upper = t > 0.0 && reaches(t, best.up), is_lower = t < 0.0 && reaches(-t, best.down);
            set(best.k, is_upper ? p.upper[best.k] : is_lower ? p.lower[best.k] : before + t);
            held_out.note_step(best.k, p.beta[best.k] - before);
            best = move_and_rate(K.row(best.k), p.beta[best.k] - before);
        }
    }

    // G += t a, and the next variable
    Offer move_and_rate(const T* a, double t) {
        Group& group = groups[0];
        LeastOfLanes least(0.0f);  // of the gains, negative
        Floats largest{};
        visit_chunks(group, all(), a, [&](int c) {
            const int at = c * chunk;
            alignas(vector_bytes) float slope[chunk], curvature[chunk];
            slide_chunk(gradient_.data() + at, a + at, diagonal_.data() + at, t, unit, slope, curvature);
            for (int first = 0; first < chunk; first += strip)
#pragma GCC unroll 4
                for (int s = 0; s < sets; ++s) {
                    const int k = first + s * lanes;
                    const Floats falls = load(slope + k) + load(group.may_fall.data() + at + k), zero{};
                    const Floats rises = -load(slope + k) - load(group.may_rise.data() + at + k);
                    const Floats excess = larger_of(larger_of(falls, rises), zero);
                    least.look(s, -excess * excess / load(curvature + k), places_from(at + first));
                    largest = larger_of(largest, excess);
                }
        });
        const Found best = least.found();
        const float violation = largest_lane(largest);
        const bool moves = best.value < 0.0f && (group.may_rise[best.place] == 0.0f || group.may_fall[best.place] == 0.0f);
        return moves ? offer_of(best, violation) : Offer{none, violation};
    }

    static void slide_chunk(double* G, const T* a, const T* diagonal, double t, double unit, float* slope, float* curvature) {
#pragma omp simd
        for (int k = 0; k < chunk; ++k) {
            G[k] += t * static_cast<double>(a[k]);
            slope[k] = static_cast<float>(G[k] * unit);
            curvature[k] = larger(static_cast<float>(diagonal[k]), least_curvature);
        }
    }

    TileProblem<T>& p;
    const Tile<T>& K;
    const int m;
    const bool coupled;
    const int padded;
    // Steps before old directions are remembered. A step along several of them takes a fifth longer: that does not pay where
    // few steps from the start lead to the end, as along a grid, and of small problems, whose rows are computed one by one.
    const long fewest_to_remember = K.lazy() ? std::numeric_limits<long>::max() : m;
    long made_ = 0;
    const bool fits_into_cache = sizeof(T) * m * padded <= size_of_cache;
    HeldOutChunks<T> held_out;
    std::vector<Group> groups;  // without groups: one that is kept to no sum
    std::vector<int> moving;    // the chunks that are not held out
    Buffer<double> gradient_;
    Buffer<T> diagonal_;
    Buffer<T> storage_[3];
    Movements movements_{};
    RecentDirections<T> directions_;
    std::vector<signed char> free_now;
    std::atomic<int> n_free_ = 0;
    Offers lowest;              // i of each group
    Levels levels{};            // of the excesses
    double unit = 1.0;          // factor on gradients in the rating of pairs
    float floor_of_all = 0.0f;  // least curvature of every pair
    double violation_ = 0.0, violation_of_first_group = 0.0, lowest_curvature = 0.0;
    bool ended_ = false;
};

}  // namespace maxmargin::MAXMARGIN_LEVEL
