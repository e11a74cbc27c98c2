#include "maxmargin/pace.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "maxmargin/threads.hpp"

namespace maxmargin {
namespace {

constexpr int first_interval = 4, longest_interval = 64;
constexpr double unknown = -1.0;

// What was best for the last tile of a similar size (its number of variables in binary digits): the first guess for the next one.
std::atomic<int> last_best[32];

}  // namespace

Pace::Pace(int n_variables) : sizes_{1}, interval_(first_interval), left_(first_interval) {
    if (n_variables >= fewest_variables)
        for (int n = n_threads(), size = 1; size < n;) sizes_.push_back(size = std::min(2 * size, n));
    if (!has_choice()) return;
    seconds_.assign(sizes_.size(), unknown);
    kind_ = std::bit_width(static_cast<unsigned>(n_variables)) - 1;
    best_ = at_ = std::min(last_best[kind_].load(std::memory_order_relaxed), static_cast<int>(sizes_.size()) - 1);
}

void Pace::note(long steps, double seconds) {
    seconds_[at_] = seconds / static_cast<double>(std::max(steps, 1L));
    const int before = best_;
    const auto exists = [&](int k) { return k >= 0 && k < static_cast<int>(sizes_.size()); };
    best_ = at_;
    for (int k = 0; exists(k); ++k)
        if (seconds_[k] != unknown && seconds_[k] < seconds_[best_]) best_ = k;
    if (best_ != before) interval_ = left_ = first_interval;
    if (--left_ == 0) {
        left_ = interval_ = std::min(2 * interval_, longest_interval);
        for (int k : {best_ - 1, best_ + 1})
            if (exists(k)) seconds_[k] = unknown;
    }
    at_ = best_;
    for (int k : {best_ - 1, best_ + 1})
        if (exists(k) && seconds_[k] == unknown) at_ = k;
    last_best[kind_].store(best_, std::memory_order_relaxed);
}

}  // namespace maxmargin
