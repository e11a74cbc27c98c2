// The kernel matrix of one training set; entries are computed only when they are needed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "maxmargin/samples.hpp"

namespace maxmargin {

// A cache of rows of the kernel matrix within a byte budget; it evicts the least recently used one and computes nothing.
//
// The columns are cut into segments (the classes of a multi-class problem), and the cache holds *blocks*: one row over one
// segment. Memory of released blocks is used again before fresh memory: the first touch of a page costs about as much as
// computing its content.
template <class T>
class RowCache {
public:
    RowCache(std::int64_t n_rows, std::vector<std::int64_t> segments, std::int64_t budget_bytes);

    std::int64_t capacity() const { return capacity_; }  // in blocks
    int n_segments() const { return static_cast<int>(segments_.size()) - 1; }
    std::int64_t segment_start(int s) const { return segments_[s]; }
    std::int64_t segment_end(int s) const { return segments_[s + 1]; }

    // The cached block, or null.
    T* find(std::int32_t row, int segment) {
        const std::int64_t s = slot_of(row, segment);
        return s < 0 ? nullptr : slot(s);
    }
    bool holds(std::int32_t row, int segment) const { return slot_of(row, segment) >= 0; }
    // Whether the columns `members` (sorted) of the row are all in cached blocks.
    bool holds_all(std::int32_t row, const std::int32_t* members, int n_members) const;
    // Memory for the block, after evicting another if necessary; null if all blocks are in use since `begin_use`.
    T* claim(std::int32_t row, int segment);
    void begin_use() { ++clock_; }
    void touch(std::int32_t row, int segment) { last_use_[slot_of(row, segment)] = clock_; }
    // Release the blocks of rows outside their own segment, which are useful for one pair of classes only.
    void release_cross_blocks();

private:
    T* slot(std::int64_t s) { return storage_.data() + s * width_; }
    std::int64_t slot_of(std::int32_t row, int segment) const {
        return capacity_ == 0 ? -1 : slots_[static_cast<std::size_t>(row) * n_segments() + segment];
    }
    std::int64_t& slot_of(std::int32_t row, int segment) {
        return slots_[static_cast<std::size_t>(row) * n_segments() + segment];
    }

    struct Owner {
        std::int32_t row = -1;
        int segment = 0;
    };
    std::vector<std::int64_t> segments_;
    std::int64_t width_, capacity_, hand_ = 0;
    std::uint64_t clock_ = 0;
    std::vector<std::int64_t> slots_;       // slot of each (row, segment), -1 if it is not cached
    std::vector<std::int64_t> given_back_;  // released slots, the last one first
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
    std::int64_t cached_blocks() const { return cache_.capacity(); }  // the largest number of blocks in the cache
    void release_cross_blocks() { cache_.release_cross_blocks(); }

    // The kernel matrix of some of the samples, without a cache.
    Gram subset(const std::int32_t* members, std::int64_t n_members) const {
        return Gram(kernel_, Samples<T>(samples_, members, n_members), {0, n_members}, 0);
    }

    // These rows will be needed again: keep them, as far as there is room, when they are computed the next time.
    void expect(const std::int32_t* rows, std::int64_t n_rows) {
        if (cache_.capacity() > 0) expected_.resize(size(), 0);
        for (std::int64_t a = 0; a < n_rows && !expected_.empty(); ++a) expected_[rows[a]] = 1;
    }
    // out += sum_a weights[a] k(x_rows[a], .) over the concatenated columns of the given segments. With several outputs, both the
    // outputs and their weights are concatenated, and most weights are zero. The sums of `known` samples, if they are given (one
    // byte for each sample of the matrix), may be left out; returns whether some were.
    bool accumulate(const std::int32_t* rows, const double* weights, std::int64_t n_rows, const std::vector<int>& segments,
                    double* out, int n_outputs = 1, const std::uint8_t* known = nullptr);
    // tile[a][b] = k(x_members[a], x_members[b]), from cached rows where there are any
    void fill_tile(const std::int32_t* members, int n_members, Tile<T>& tile);
    void diagonal(double* out) const;

private:
    bool is_expected(std::int32_t row) const { return !expected_.empty() && expected_[row]; }
    bool accumulate_segment(const std::int32_t* rows, const double* weights, std::int64_t n_rows, int segment, double* out,
                            int n_outputs, std::int64_t out_stride, const std::uint8_t* known);

    Kernel kernel_;
    Samples<T> samples_;
    RowCache<T> cache_;
    std::vector<std::uint8_t> expected_;  // of each row, whether it will be needed again
    std::int64_t entries_computed_ = 0;
};

// fill_tile and accumulate for a kernel matrix in memory, symmetric, with rows `stride` entries apart. They only read it, so
// several threads may use them.
template <class T>
void fill_tile_from(const T* matrix, std::int64_t stride, const std::int32_t* members, int n_members, Tile<T>& tile);
// out += sum_a weights[a] matrix[rows[a]] over the columns first <= c < last
template <class T>
void accumulate_from(const T* matrix, std::int64_t stride, const std::int32_t* rows, const double* weights, std::int64_t n_rows,
                     std::int64_t first, std::int64_t last, double* out);

// pairs[r][c] = the dot product or distance of the samples r and c, whichever the kernel is a function of
void pair_all(const Kernel& kernel, Samples<double>& samples, double* pairs);
// matrix[r][c] = the kernel value for pairs[r][c], and rounded[r][c] the same in float32
void apply_kernel_to(const Kernel& kernel, const double* pairs, std::int64_t pairs_stride, std::int64_t n_rows,
                     std::int64_t n_columns, double* matrix, float* rounded, std::int64_t stride);
// out[a] = sum_c matrix[at[a]][c] weights[c]
void products_from(const double* matrix, std::int64_t stride, const std::int32_t* at, std::int64_t n_at, const double* weights,
                   std::int64_t n_weights, double* out);
// out[r] = sum_c matrix[r][c] weights[c] for some rows r in ascending order, among them all with a weight that is not zero. Half
// of the entries are read, each of which stands for two, by one thread. Other places of `out` hold no sums.
void symmetric_products_from(const double* matrix, std::int64_t stride, const std::vector<std::int32_t>& rows,
                             const double* weights, std::int64_t n_weights, double* out);

// A dual problem small enough for one tile; see TileProblem. It is solved to `tolerance`, and then polished to `polish`.
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

// Solve many small problems over one kernel matrix, each by one thread; those whose turn comes after the deadline stay as they
// are.
template <class T>
void solve_tiles(const Gram<T>& gram, std::vector<SmallProblem<T>>& problems, const Deadline& deadline);

// sums[(g * n_outputs + o) * queries.size() + q] += sum_s weights[o * support.size() + s] k(support_s, query_q) over the
// support vectors s of group g; `group_ends` says where the consecutive groups end.
template <class T>
void weighted_sums(const Kernel& kernel, const Samples<T>& support, const Samples<T>& queries, const double* weights,
                   int n_outputs, const std::vector<std::int64_t>& group_ends, double* sums);

}  // namespace maxmargin
