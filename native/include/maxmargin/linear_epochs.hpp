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
    explicit EpochSolver(std::int64_t n) : n_(n), samples_(n), random_(1) {
        std::iota(samples_.data(), samples_.data() + n_, std::int64_t(0));
        n_active_ = n_;
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

    Self& self() { return static_cast<Self&>(*this); }

    void unshrink() {
        n_active_ = n_;
        threshold_ = std::numeric_limits<double>::infinity();
        self().take_back();
    }

    // Visit each active sample once, in random order. False if the time ran out before.
    bool epoch(const Deadline& deadline) {
        for (std::int64_t a = 0; a + 1 < n_active_; ++a)
            std::swap(samples_[a], samples_[a + static_cast<std::int64_t>(random_.below(n_active_ - a))]);
        gaps_ = violation_ = 0.0;
        for (std::int64_t next = 0, steps = 0; next < n_active_; ++steps) {
            if (steps % steps_between_looks_at_the_clock == 0 && deadline.passed()) return false;
            if (next + announced_ahead < n_active_) self().announce(samples_[next + announced_ahead]);
            if (next + rows_ahead < n_active_) self().prefetch(samples_[next + rows_ahead]);
            if (self().take_step(samples_[next]))
                ++next;
            else
                std::swap(samples_[next], samples_[--n_active_]);
        }
        threshold_ = violation_ > 0.0 ? violation_ : std::numeric_limits<double>::infinity();
        return true;
    }

    Buffer<std::int64_t> samples_;  // the active ones come first
    std::int64_t n_active_;
    double last_gap_of_all_ = 0.0;
    Random random_;
};

}  // namespace maxmargin
