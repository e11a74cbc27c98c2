// The time at which a computation has to end.
#pragma once
#include <chrono>

namespace maxmargin {

class Deadline {
public:
    // A deadline this many seconds from now; `never` for no deadline.
    static constexpr double never = 1e30;
    explicit Deadline(double seconds) : ends_(seconds < never), at_(Clock::now()) {
        if (ends_) at_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }
    bool passed() const { return ends_ && Clock::now() >= at_; }
    // Whether there is time for work that takes this many seconds.
    bool allows(double seconds) const { return !ends_ || std::chrono::duration<double>(at_ - Clock::now()).count() >= seconds; }

private:
    using Clock = std::chrono::steady_clock;
    bool ends_;
    Clock::time_point at_;
};

}  // namespace maxmargin
