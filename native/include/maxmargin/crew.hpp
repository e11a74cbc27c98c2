// Threads that go through a loop of very short steps together, each with a part of the data of its own. Now and then they have to
// agree: each makes an offer, and goes on when it has seen those of all. Every member has a place for its offers that the others
// read, so to agree takes one message from core to core. Waking a sleeping thread takes a hundred times as long.
//
// A member whose processor is busy with something else holds up all others. These notice it, let other threads have their
// processors, and say so in their next offers. Then all members know, and may end the loop.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "maxmargin/threads.hpp"

namespace maxmargin {

template <class Offer>
class Crew {
    // On cache lines of its own. What a message costs is the cache lines that travel, so the parts of an offer that others read
    // should follow `told` closely.
    struct alignas(128) Place {
        std::atomic<std::uint64_t> told = 0;  // twice the number of the agreement that the offer is for, plus one if held up
        Offer offer;
    };

public:
    class Member {
    public:
        Member(Place* places, int number, int size) : number(number), size(size), places_(places) {}

        const int number, size;

        // The best of the offers of all members: `better(a, b)` makes one of two, in the order of the members.
        template <class Better>
        Offer agree(const Offer& mine, Better better) {
            if (size == 1) return mine;
            ++agreements_;
            // Of the two sets of places one is for every second agreement: nobody writes to it before all have read it, since
            // there is an agreement between.
            Place* places = places_ + (agreements_ % 2) * size;
            places[number].offer = mine;
            places[number].told.store(2 * agreements_ + held_up_, std::memory_order_release);
            disturbed_ = wait_for_all(places);
            Offer best = mine;
            for (int k = number - 1; k >= 0; --k) best = better(places[k].offer, best);
            for (int k = number + 1; k < size; ++k) best = better(best, places[k].offer);
            return best;
        }

        // Whether some member was held up before the last agreement: the same answer for all members.
        bool disturbed() const { return disturbed_; }

    private:
        // Returns whether some member was held up.
        bool wait_for_all(const Place* places) {
            for (int rounds = 0;; ++rounds) {
                bool all = true, disturbed = false;
                for (int k = 0; k < size; ++k) {
                    const std::uint64_t told = places[k].told.load(std::memory_order_acquire);
                    all &= told / 2 == agreements_;
                    disturbed |= told % 2 == 1;
                }
                if (all) return disturbed;
                if (rounds < spins) {
                    pause();
                } else {
                    std::this_thread::yield();
                    held_up_ |= rounds > spins + yields;
                }
            }
        }

        Place* places_;
        std::uint64_t agreements_ = 0;
        bool held_up_ = false, disturbed_ = false;
    };

    // Let at most `size` threads do `work(member)`, this one among them.
    template <class Work>
    static void gather(int size, Work&& work) {
        if (size == 1) {
            Member alone(nullptr, 0, 1);
            return work(alone);
        }
        std::vector<Place> places(2 * size);
        side_by_side(size, [&](int number, int n_threads) {
            Member member(places.data(), number, n_threads);
            work(member);
        });
    }

private:
    static constexpr int spins = 400;    // rounds of waiting, some ten microseconds, before a member yields its processor
    static constexpr int yields = 1000;  // rounds of that, some tenths of a millisecond, before it counts as held up

    static void pause() {
#if defined(__GNUC__) && defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
};

}  // namespace maxmargin
