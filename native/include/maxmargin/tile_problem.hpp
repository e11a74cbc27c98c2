// The dense quadratic programme of one working set, solved by simd/tile_solver.hpp:
//
//     min over beta   1/2 (beta - beta0)' K (beta - beta0) + G' (beta - beta0)
//     s.t.            lower <= beta <= upper,   sum(beta) = sum(beta0) over each group
//
// given the gradient G at the start beta0. K includes whatever the problem adds to the diagonal. A group is a range of variables;
// there are none, one or two.
//
// Infinity. A bound may be infinite (hard margin, squared hinge), and so may the tolerance. But the solvers are compiled with
// -ffinite-math-only, where infinity has no meaning. So the constructor of a TileProblem replaces what is infinite, or larger
// than `unbounded`, by +-unbounded, and the solvers meet finite numbers only. `unbounded` is larger than any dual variable, so
// that no step ends there; and so far below the largest double that no difference of bounds and variables overflows. The
// constructor is instantiated by its callers only, which are compiled with ordinary arithmetic.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "maxmargin/deadline.hpp"
#include "maxmargin/memory.hpp"

namespace maxmargin {

// A loop over a row of a tile runs in chunks of this many entries; rows are padded with zeros to whole chunks.
inline constexpr int chunk = 64;
constexpr int in_chunks(int size) { return (size + chunk - 1) / chunk * chunk; }

// The square kernel matrix of a working set: complete; or *lazy*, with rows computed when they are first needed; or a *view* of a
// matrix owned elsewhere. The memory of a tile is reused from one working set to the next.
template <class T>
class Tile {
public:
    int size() const { return size_; }
    int stride() const { return in_chunks(size_); }
    bool lazy() const { return static_cast<bool>(compute_); }
    T* row(int i) { return values_.data() + static_cast<std::ptrdiff_t>(i) * stride(); }
    const T* row(int i) const {
        if (compute_ && !ready_[i]) {
            compute_(i, const_cast<Tile*>(this)->row(i));
            ready_[i] = 1;
        }
        return (view_ ? view_ : values_.data()) + static_cast<std::ptrdiff_t>(i) * stride();
    }
    double diagonal(int i) const { return compute_ ? diagonal_[i] : static_cast<double>(row(i)[i]); }

    void resize(int size) {
        reserve(size);
        for (int i = 0; i < size; ++i) std::fill(row(i) + size, row(i) + stride(), T(0));
    }
    // `compute(i, out)` writes row i, padding included.
    void make_lazy(std::vector<double> diagonal, std::function<void(int, T*)> compute) {
        reserve(static_cast<int>(diagonal.size()));
        diagonal_ = std::move(diagonal);
        ready_.assign(diagonal_.size(), 0);
        compute_ = std::move(compute);
    }

    // Rows of `matrix` are stride() entries apart, padding included.
    void make_view(const T* matrix, int size) {
        size_ = size;
        compute_ = nullptr;
        view_ = matrix;
    }

private:
    void reserve(int size) {
        size_ = size;
        compute_ = nullptr;
        view_ = nullptr;
        const std::size_t needed = static_cast<std::size_t>(size) * stride();
        if (values_.size() < needed) values_ = Buffer<T>(needed);
    }

    int size_ = 0;
    Buffer<T> values_;
    const T* view_ = nullptr;
    std::function<void(int, T*)> compute_;
    std::vector<double> diagonal_;
    mutable std::vector<std::uint8_t> ready_;
};

inline constexpr double unbounded = 1e300;

inline constexpr long steps_per_look = 128;  // steps of a solver between two looks at the clock

template <class T>
struct TileProblem {
    TileProblem(const Tile<T>& K, const double* lower, const double* upper, double* beta, double* gradient,
                const std::vector<int>& edges, double tolerance, long max_steps, Deadline deadline)
        : K(K), lower(finite(lower, K.size())), upper(finite(upper, K.size())), beta(beta), gradient(gradient), edges(edges),
          tolerance(finite(&tolerance, 1)[0]), max_steps(max_steps), deadline(deadline) {}

    const Tile<T>& K;
    const std::vector<double> lower, upper;
    double* beta;                   // in: beta0; out: the solution
    double* gradient;               // in: G; out: the gradient at the solution
    const std::vector<int>& edges;  // where the consecutive groups begin and end; empty without groups
    double tolerance;               // stop at this violation
    long max_steps;                 // pair (or coordinate) steps
    Deadline deadline;
    double polish = unbounded;  // go on to this violation, if it is smaller, as far as rounding allows and for some steps more

    int n_groups() const { return edges.empty() ? 0 : static_cast<int>(edges.size()) - 1; }

private:
    static std::vector<double> finite(const double* values, int size) {
        std::vector<double> result(values, values + size);
        for (double& value : result) value = value > unbounded ? unbounded : value < -unbounded ? -unbounded : value;
        return result;
    }
};

struct TileResult {
    long steps = 0;
    double violation = 0.0;
    double level = 0.0;             // of the first group: the middle between the gradients that may rise and those that may fall
    double lowest_curvature = 0.0;  // the most negative curvature of a pair that was moved, relative to its diagonal
};

}  // namespace maxmargin
