#include "maxmargin/threads.hpp"

#include <omp.h>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace maxmargin {
namespace {

bool forked = false;

}  // namespace

int n_threads() { return forked || omp_in_parallel() ? 1 : omp_get_max_threads(); }

void run_side_by_side(int size, void (*body)(void*, int, int), void* context) {
    if (size <= 1 || omp_in_parallel()) return body(context, 0, 1);
#pragma omp parallel num_threads(size)
    body(context, omp_get_thread_num(), omp_get_num_threads());
}

void watch_for_forks() {
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif
}

}  // namespace maxmargin
