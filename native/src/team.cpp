#include "maxmargin/team.hpp"

#include <omp.h>

#include <algorithm>
#include <thread>

#include "maxmargin/threads.hpp"

namespace maxmargin {
namespace {

constexpr int pauses = 300;  // rounds of spinning before a thread offers its processor to others
constexpr int yields = 200;  // rounds of that before it goes to sleep

void pause() {
#if defined(__GNUC__) && defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace

void Team::with_threads(Team& team, int size, void (*body)(void*), void* context) {
    size = std::min(size, most_members);
    if (size <= 1 || omp_in_parallel()) return body(context);
    Failure failure;
#pragma omp parallel num_threads(size)
    {
        if (omp_get_thread_num() == 0) {
            team.size_ = omp_get_num_threads();
            failure.guard([&] { body(context); });
            team.dismissed_.store(true, std::memory_order_release);
            team.number_.fetch_add(1, std::memory_order_release);
            team.number_.notify_all();
        } else {
            team.serve(omp_get_thread_num());
        }
    }
    failure.rethrow();
}

// Do a block of the piece of work `number`, unless it has been taken.
bool Team::take(int block, std::uint64_t number) {
    std::atomic<std::uint64_t>& state = blocks_[block].state;
    std::uint64_t before = 2 * number - 2;
    if (!state.compare_exchange_strong(before, 2 * number - 1, std::memory_order_acquire, std::memory_order_relaxed))
        return false;
    task_(context_, block);  // the task does not change before this block is finished
    state.store(2 * number, std::memory_order_release);
    return true;
}

void Team::run(Task task, void* context) {
    task_ = task;
    context_ = context;
    const std::uint64_t number = number_.load(std::memory_order_relaxed) + 1;
    number_.store(number, std::memory_order_release);
    number_.notify_all();
    for (int block = 0; block < size_; ++block) take(block, number);
    for (int block = 0; block < size_; ++block)
        for (int rounds = 0; blocks_[block].state.load(std::memory_order_acquire) < 2 * number; ++rounds)
            rounds < pauses ? pause() : std::this_thread::yield();
}

void Team::serve(int member) {
    std::uint64_t done = 0;
    for (int rounds = 0; !dismissed_.load(std::memory_order_acquire); ++rounds) {
        const std::uint64_t number = number_.load(std::memory_order_acquire);
        if (number != done) {
            if (!dismissed_.load(std::memory_order_acquire)) take(member, number);
            done = number;
            rounds = 0;
        } else if (rounds < pauses) {
            pause();
        } else if (rounds < pauses + yields) {
            std::this_thread::yield();
        } else {
            number_.wait(number, std::memory_order_acquire);
        }
    }
}

}  // namespace maxmargin
