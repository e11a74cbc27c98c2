// The number of threads of a parallel region.
//
// OpenMP's threads do not survive a fork, and libgomp waits for them for ever if a forked process asks for them. So a process
// that was forked (multiprocessing, joblib) computes with one thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace maxmargin {

inline constexpr std::int64_t entries_worth_threads = 1 << 18;  // fewer entries take less time than waking up a thread

// The number of threads that OpenMP uses by default; one in a forked process, and within a parallel region.
int n_threads();
// The number of threads for work on this many kernel entries: one if they are few.
inline int threads_for(std::int64_t entries) { return entries > entries_worth_threads ? n_threads() : 1; }
// Call body(number, size) by `size` threads at once, this one among them; by this one alone within a parallel region. (The vector
// loops are compiled without OpenMP's threads.) The body must not throw.
void run_side_by_side(int size, void (*body)(void* context, int number, int size), void* context);
template <class Body>
void side_by_side(int size, Body&& body) {
    run_side_by_side(
        size, [](void* context, int number, int n) { (*static_cast<std::remove_reference_t<Body>*>(context))(number, n); },
        &body);
}
// To be called once, before any fork.
void watch_for_forks();

// The exception of a parallel region (out of memory, say). No exception may leave such a region, so it is stored and thrown after
// it.
class Failure {
public:
    bool happened() const { return happened_.load(std::memory_order_relaxed); }

    // Do the work of one iteration, unless some other has failed.
    template <class Work>
    void guard(Work&& work) noexcept {
        if (happened()) return;
        try {
            work();
        } catch (...) {
            if (!happened_.exchange(true)) what_ = std::current_exception();
        }
    }
    void rethrow() const {
        if (what_) std::rethrow_exception(what_);
    }

private:
    std::atomic<bool> happened_ = false;
    std::exception_ptr what_;
};

}  // namespace maxmargin
