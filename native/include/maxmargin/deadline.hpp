// When a computation has to end.
#pragma once
#include <chrono>

namespace maxmargin {

class Deadline {
public:
    // So many seconds from now; `never` for no end.
    static constexpr double never = 1e30;
    explicit Deadline(double seconds) : ends_(seconds < never), at_(Clock::now()) {
        if (ends_) at_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }
    bool passed() const { return ends_ && Clock::now() >= at_; }
    // Whether there is time for something that takes so long.
    bool allows(double seconds) const {
        return !ends_ || std::chrono::duration<double>(at_ - Clock::now()).count() >= seconds;
    }

private:
    using Clock = std::chrono::steady_clock;
    bool ends_;
    Clock::time_point at_;
};

}  // namespace maxmargin
