#include "maxmargin/threads.hpp"

#include <omp.h>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace maxmargin {
namespace {

bool forked = false;

}  // namespace

int n_threads() { return forked ? 1 : omp_get_max_threads(); }

void watch_for_forks() {
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif
}

}  // namespace maxmargin
