// The kernel matrix of one training set, of which only what is asked for is ever computed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "maxmargin/samples.hpp"

namespace maxmargin {

// Keeps rows of the kernel matrix within a byte budget; evicts the least recently used, never computes.
//
// The columns are cut into segments (the classes of a multi-class problem), and what is kept is a *block*: one row over one
// segment. Blocks that were given back are used again before fresh memory is: the first touch of a page costs about as much as
// computing what fills it.
template <class T>
class RowCache {
public:
    RowCache(std::int64_t n_rows, std::vector<std::int64_t> segments, std::int64_t budget_bytes);

    std::int64_t capacity() const { return capacity_; }  // in blocks
    int n_segments() const { return static_cast<int>(segments_.size()) - 1; }
    std::int64_t segment_start(int s) const { return segments_[s]; }
    std::int64_t segment_end(int s) const { return segments_[s + 1]; }

    // The block, or null.
    T* find(std::int32_t row, int segment) {
        const std::int64_t s = slot_of(row, segment);
        return s < 0 ? nullptr : slot(s);
    }
    bool holds(std::int32_t row, int segment) const { return slot_of(row, segment) >= 0; }
    // Whether the columns `members` (sorted) of the row are all in blocks that are kept.
    bool holds_all(std::int32_t row, const std::int32_t* members, int n_members) const;
    // A place for the block, evicting another if need be; null if all are in use since `begin_use`.
    T* claim(std::int32_t row, int segment);
    void begin_use() { ++clock_; }
    void touch(std::int32_t row, int segment) { last_use_[slot_of(row, segment)] = clock_; }
    // Give back the blocks of rows outside their own segment: of use to one pair of classes alone.
    void release_cross_blocks();

private:
    T* slot(std::int64_t s) { return storage_.data() + s * width_; }
    std::int64_t slot_of(std::int32_t row, int segment) const {
        return capacity_ == 0 ? -1 : slots_[static_cast<std::size_t>(row) * n_segments() + segment];
    }
    std::int64_t& slot_of(std::int32_t row, int segment) { return slots_[static_cast<std::size_t>(row) * n_segments() + segment]; }

    struct Owner {
        std::int32_t row = -1;
        int segment = 0;
    };
    std::vector<std::int64_t> segments_;
    std::int64_t width_, capacity_, hand_ = 0;
    std::uint64_t clock_ = 0;
    std::vector<std::int64_t> slots_;      // of each (row, segment), -1 if not kept
    std::vector<std::int64_t> given_back_;  // slots free to use, the last one first
    std::vector<Owner> owners_;
    std::vector<std::uint64_t> last_use_;
    Buffer<T> storage_;
};

template <class T>
class Gram {
public:
    Gram(Kernel kernel, Samples<T> samples, std::vector<std::int64_t> segments, std::int64_t cache_bytes);

    std::int64_t size() const { return samples_.size(); }
    const Kernel& kernel() const { return kernel_; }
    const Samples<T>& samples() const { return samples_; }
    std::int64_t entries_computed() const { return entries_computed_; }
    std::int64_t cached_blocks() const { return cache_.capacity(); }  // at most: rows times segments
    void release_cross_blocks() { cache_.release_cross_blocks(); }

    // The kernel matrix of some of the samples, without a cache.
    Gram subset(const std::int32_t* members, std::int64_t n_members) const {
        return Gram(kernel_, Samples<T>(samples_, members, n_members), {0, n_members}, 0);
    }

    // out += sum_a weights[a] k(x_rows[a], .) over the columns of the given segments, one after the other.
    // Of several outputs, one after the other, each has its own weights, also one after the other, most of them zero.
    void accumulate(const std::int32_t* rows, const double* weights, std::int64_t n_rows, const std::vector<int>& segments, double* out,
                    int n_outputs = 1);
    // tile[a][b] = k(x_members[a], x_members[b]), from cached rows where there are any
    void fill_tile(const std::int32_t* members, int n_members, Tile<T>& tile);
    // The same without looking, into a tile of that size: the upper triangle first if `mirror`.
    void fill_tile_anew(const std::int32_t* members, int n_members, bool mirror, Tile<T>& tile) const;
    void diagonal(double* out) const;

private:
    void accumulate_segment(const std::int32_t* rows, const double* weights, std::int64_t n_rows, int segment, double* out,
                            int n_outputs, std::int64_t out_stride);

    Kernel kernel_;
    Samples<T> samples_;
    RowCache<T> cache_;
    std::int64_t entries_computed_ = 0;
};

// The same two operations over a kernel matrix that is there as a whole, symmetric, with rows `stride` entries apart. They only
// read it, so several threads may.
template <class T>
void fill_tile_from(const T* matrix, std::int64_t stride, const std::int32_t* members, int n_members, Tile<T>& tile);
// out += sum_a weights[a] matrix[rows[a]] over the columns first <= c < last
template <class T>
void accumulate_from(const T* matrix, std::int64_t stride, const std::int32_t* rows, const double* weights, std::int64_t n_rows,
                     std::int64_t first, std::int64_t last, double* out);

// pairs[r][c] = the dot product or distance of the samples r and c, as the kernel pairs them
void pair_all(const Kernel& kernel, Samples<double>& samples, double* pairs);
// matrix[r][c] = the kernel of two samples that are paired so, and rounded[r][c] the same in float32
void apply_kernel_to(const Kernel& kernel, const double* pairs, std::int64_t pairs_stride, std::int64_t n_rows, std::int64_t n_columns,
                     double* matrix, float* rounded, std::int64_t stride);
// out[a] = sum_c matrix[at[a]][c] weights[c]
void products_from(const double* matrix, std::int64_t stride, const std::int32_t* at, std::int64_t n_at, const double* weights,
                   std::int64_t n_weights, double* out);

// A dual problem small enough for one tile; see TileProblem. After `tolerance` is reached it is polished to `polish`.
template <class T>
struct SmallProblem {
    const std::int32_t* members;
    int size;
    const double *lower, *upper, *shift;  // shift may be null
    double *beta, *gradient;
    bool coupled;
    double tolerance, polish;
    long max_steps;
    TileResult result;
};

// Solve many of them over one kernel matrix, each by one thread; those that begin after the deadline stay as they are.
template <class T>
void solve_tiles(const Gram<T>& gram, std::vector<SmallProblem<T>>& problems, const Deadline& deadline);

// sums[(g * n_outputs + o) * queries.size() + q] += sum_s weights[o * support.size() + s] k(support_s, query_q) over the
// support vectors s of group g; `group_ends` says where the groups, one after the other, end.
template <class T>
void weighted_sums(const Kernel& kernel, const Samples<T>& support, const Samples<T>& queries, const double* weights, int n_outputs,
                   const std::vector<std::int64_t>& group_ends, double* sums);

}  // namespace maxmargin
