// Descent over the duals of linear machines, sample by sample, in epochs: the random order, the shrinking and the end of a run.
//
// What a step does is up to `Self`, a subclass (the curiously recurring template pattern: a step is too short for a virtual
// call):
//
//     bool take_step(i)            improve the duals of sample i, add its share of the gap to gaps_, and raise violation_ to its
//                                  violation. False if the sample is settled instead, and to be left out
//     void measure(progress)       the values at the end of an epoch
//     double least_gap()           a gap that cannot be told from zero
//     double share_of_gap          what is left out comes back when the gap of the rest is this share of the last gap of all, or
//                                  small enough
//     bool is_whole()              whether nothing is left out of the active samples
//     void take_back()             all that was left out comes back
//     void announce(i)             ask for the entries of a sample in arrays, where its row starts among them
//     void prefetch(i)             ask for its row
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "maxmargin/deadline.hpp"
#include "maxmargin/linear_problem.hpp"
#include "maxmargin/memory.hpp"

namespace maxmargin {

// A small generator of random numbers (SplitMix64): the order of the samples, the same on every platform.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t below(std::uint64_t bound) {
        state_ += 0x9e3779b97f4a7c15ULL;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(z ^ (z >> 31)) * bound) >> 64);
    }

private:
    std::uint64_t state_;
};

template <class Self>
class EpochSolver : public LinearSolver {
public:
    explicit EpochSolver(std::int64_t n)
        : n_(n), samples_(n), order_(n), chunk_(std::clamp(n / chunks_of_small_sets, std::int64_t(1), largest_chunk)),
          chunks_((n + chunk_ - 1) / chunk_), random_(1) {
        activate_all();
    }

    LinearProgress advance(double gap_tol, std::int64_t max_rounds, double seconds) final {
        const Deadline deadline(seconds);
        LinearProgress progress{};
        while (!progress.done && progress.rounds < max_rounds && !deadline.passed()) {
            const bool all = n_active_ == n_ && self().is_whole();
            progress.passes += static_cast<double>(n_active_) / std::max<std::int64_t>(n_, 1);
            const bool complete = epoch(deadline);
            ++progress.rounds;
            self().measure(progress);
            if (!complete) break;
            if (all) last_gap_of_all_ = progress.gap;
            const double value = std::max(std::abs(progress.primal), std::abs(progress.dual));
            const double wanted = std::max(gap_tol * value, self().least_gap());
            progress.done = all && progress.gap <= wanted;
            const bool solved = progress.gap <= std::max(wanted, Self::share_of_gap * last_gap_of_all_);
            // if none is active, the duals have settled, and the bias has not
            if (!progress.done && (n_active_ == 0 || (!all && solved))) unshrink();
        }
        return progress;
    }

protected:
    const std::int64_t n_;
    // The largest violation of the last epoch: what is settled is settled by more than that.
    double threshold_ = std::numeric_limits<double>::infinity();
    double gaps_ = 0.0, violation_ = 0.0;  // of the epoch

private:
    // How far ahead of its step a sample is announced, and its row asked for. The order is random, and rows that are not in a
    // cache are many steps away.
    static constexpr int announced_ahead = 16, rows_ahead = 8;
    static constexpr std::int64_t steps_between_looks_at_the_clock = 4096;
    // Neighbours share pages and lines of memory. A large set has chunks of them, so that fewer steps wait for memory.
    static constexpr std::int64_t chunks_of_small_sets = 4096, largest_chunk = 8;
    static constexpr std::int64_t settled = -1;

    Self& self() { return static_cast<Self&>(*this); }

    void activate_all() {
        std::iota(samples_.data(), samples_.data() + n_, std::int64_t(0));
        n_active_ = n_;
    }
    void unshrink() {
        activate_all();
        threshold_ = std::numeric_limits<double>::infinity();
        self().take_back();
    }
    void shuffle(std::int64_t* items, std::int64_t count) {
        for (std::int64_t a = 0; a + 1 < count; ++a)
            std::swap(items[a], items[a + static_cast<std::int64_t>(random_.below(count - a))]);
    }

    // A random order of the places of the active samples: of chunks of neighbours, and of the samples of a chunk.
    void draw_order() {
        const std::int64_t n_chunks = (n_active_ + chunk_ - 1) / chunk_;
        std::iota(chunks_.data(), chunks_.data() + n_chunks, std::int64_t(0));
        shuffle(chunks_.data(), n_chunks);
        std::int64_t* next = order_.data();
        for (std::int64_t c = 0; c < n_chunks; ++c) {
            const std::int64_t first = chunks_[c] * chunk_, count = std::min(chunk_, n_active_ - first);
            std::iota(next, next + count, first);
            shuffle(next, count);
            next += count;
        }
    }

    // Visit each active sample once. False if the time ran out before.
    bool epoch(const Deadline& deadline) {
        draw_order();
        gaps_ = violation_ = 0.0;
        bool complete = true;
        for (std::int64_t step = 0; step < n_active_ && complete; ++step) {
            if (step + announced_ahead < n_active_) self().announce(samples_[order_[step + announced_ahead]]);
            if (step + rows_ahead < n_active_) self().prefetch(samples_[order_[step + rows_ahead]]);
            std::int64_t& sample = samples_[order_[step]];
            if (!self().take_step(sample)) sample = settled;
            complete = (step + 1) % steps_between_looks_at_the_clock != 0 || !deadline.passed();
        }
        n_active_ = std::remove(samples_.data(), samples_.data() + n_active_, settled) - samples_.data();
        threshold_ = violation_ > 0.0 ? violation_ : std::numeric_limits<double>::infinity();
        return complete;
    }

    Buffer<std::int64_t> samples_;  // the active ones, in the order of the training set
    Buffer<std::int64_t> order_;    // places in `samples_`
    std::int64_t n_active_;
    const std::int64_t chunk_;  // samples of a chunk
    Buffer<std::int64_t> chunks_;
    double last_gap_of_all_ = 0.0;
    Random random_;
};

}  // namespace maxmargin
