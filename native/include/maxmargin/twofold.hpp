// Sums with the rounding error of each addition carried along (Knuth's two-sum).
#pragma once

namespace maxmargin {

// high + low <- high + low + term, where low is what rounding took from high so far.
inline void add_exactly(double term, double& high, double& low) {
    const double total = high + term, gained = total - high;
    low += (high - (total - gained)) + (term - gained);
    high = total;
}

struct Twofold {
    double high = 0.0, low = 0.0;

    void add(double term) { add_exactly(term, high, low); }
    void add(const Twofold& other) {
        add(other.high);
        low += other.low;
    }
    double value() const { return high + low; }
};

}  // namespace maxmargin
