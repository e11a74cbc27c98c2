// The dense quadratic programme of one working set, solved by simd/inner_smo.hpp:
//
//     min over beta   1/2 (beta - beta0)' K (beta - beta0) + G' (beta - beta0)
//     s.t.            lower <= beta <= upper,   sum(beta) = sum(beta0)  if coupled
//
// given the gradient G at the start beta0. K includes whatever the problem adds to the diagonal.
#pragma once
#include <algorithm>

#include "maxmargin/memory.hpp"

namespace maxmargin {

// A loop over a row of a tile runs in chunks of this many entries; rows are padded with zeros to whole chunks.
inline constexpr int chunk = 64;
constexpr int in_chunks(int size) { return (size + chunk - 1) / chunk * chunk; }

// A square kernel matrix of a working set. The memory is kept from one working set to the next.
template <class T>
class Tile {
public:
    int size() const { return size_; }
    int stride() const { return in_chunks(size_); }
    const T* row(int i) const { return values_.data() + static_cast<std::ptrdiff_t>(i) * stride(); }
    T* row(int i) { return values_.data() + static_cast<std::ptrdiff_t>(i) * stride(); }

    void resize(int size) {
        size_ = size;
        const std::size_t needed = static_cast<std::size_t>(size) * stride();
        if (values_.size() < needed) values_ = Buffer<T>(needed);
        for (int i = 0; i < size; ++i) std::fill(row(i) + size, row(i) + stride(), T(0));
    }

private:
    int size_ = 0;
    Buffer<T> values_;
};

template <class T>
struct TileProblem {
    const Tile<T>& K;
    const double* lower;
    const double* upper;
    double* beta;       // in: beta0; out: the solution
    double* gradient;   // in: G; out: the gradient at the solution
    bool coupled;       // one equality constraint, or none
    double tolerance;   // stop at this violation
    long max_steps;     // pair (or coordinate) steps
};

struct TileResult {
    long steps = 0;
    double violation = 0.0;
    double level = 0.0;             // the middle between the gradients that may still rise and those that may fall
    double lowest_curvature = 0.0;  // the most negative curvature of a pair that was moved, relative to its diagonal
};

}  // namespace maxmargin
