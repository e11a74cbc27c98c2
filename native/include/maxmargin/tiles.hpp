// Walk the kernel matrix of two sample sets tile by tile, in parallel over blocks of columns.
//
// `sink(first_row, n_rows, first_column, n_columns, tile, stride)` is called by one thread at a time for each block of columns,
// rows in ascending order, so a sum over rows into a column needs no lock and does not depend on the number of threads. Where
// only one half of a symmetric matrix is computed, to be stored, a block may be cut into stretches of rows as well.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "maxmargin/blas.hpp"
#include "maxmargin/samples.hpp"
#include "maxmargin/threads.hpp"

namespace maxmargin {

inline constexpr int rows_per_tile = 24;      // rows of a panel tile; its 24 x 64 values stay in the L1 cache
inline constexpr int rows_of_counts = 8;      // the same for a tile of sets
inline constexpr int rows_per_product = 192;  // rows of a matrix-product tile; it stays, with its columns, in the L2 cache
inline constexpr int columns_per_product = 512;

// A panel of `width` CSR samples that holds only the features that occur; `place` says where. Each thread keeps one, because
// clearing `place` for many features takes longer than computing a row.
template <class Value, int width>
class SparsePanel {
public:
    static SparsePanel& of_this_thread() {
        static thread_local SparsePanel panel;
        return panel;
    }
    // `entry(x)` is what the panel holds for a stored value x.
    template <class T, class Entry>
    void pack(const Samples<T>& samples, std::int64_t first, int count, Entry entry) {
        for (std::int32_t k : present_) place_[k] = -1;
        present_.clear();
        if (place_.size() < static_cast<std::size_t>(samples.n_features())) place_.resize(samples.n_features(), -1);
        for (int j = 0; j < count; ++j)
            for (std::int64_t v = 0; v < samples.n_values(first + j); ++v) {
                const std::int32_t k = samples.features(first + j)[v];
                if (place_[k] >= 0) continue;
                place_[k] = static_cast<std::int32_t>(present_.size());
                present_.push_back(k);
            }
        if (values_.size() < present_.size() * width) values_ = Buffer<Value>(2 * present_.size() * width);
        std::fill_n(values_.data(), present_.size() * width, Value(0));
        for (int j = 0; j < count; ++j)
            for (std::int64_t v = 0; v < samples.n_values(first + j); ++v)
                values_[static_cast<std::int64_t>(place_[samples.features(first + j)[v]]) * width + j] =
                    entry(samples.values(first + j)[v]);
    }
    const std::int32_t* place() const { return place_.data(); }
    const Value* values() const { return values_.data(); }

private:
    std::vector<std::int32_t> place_, present_;
    Buffer<Value> values_;
};

// The pairing that is computed for a kernel of dense samples: with many features, squared distances come from dot products.
inline Pairing dense_pairing(const Kernel& kernel, int n_features, int most_for_differences = most_features_for_differences) {
    const bool by_dots = kernel.pairing() == Pairing::squared_distance && n_features > most_for_differences;
    return by_dots ? Pairing::dot : kernel.pairing();
}

// tile <- k(tile), for `height` rows from `first_row` on against `width` columns from `first_column` on. The tile holds dot
// products if `from_dots`, else the numbers that the kernel is a function of. Columns beyond the last sample are padding.
template <class T>
void apply_kernel_to_tile(const Kernel& kernel, bool from_dots, const Samples<T>& rows, std::int64_t first_row, int height,
                          const Samples<T>& columns, std::int64_t first_column, int width, T* tile) {
    const T *row_norms = rows.norms() + first_row, *column_norms = columns.norms() + first_column;
    int near_rows[rows_per_product + 1];
    const int n_near = from_dots ? loops<T>().to_squared_distances(tile, height, width, row_norms, column_norms, near_rows) : 0;
    const int present = static_cast<int>(std::min<std::int64_t>(width, columns.size() - first_column));
    for (int k = 0; k < n_near; ++k) {
        const int a = near_rows[k];
        for (int b = 0; b < present; ++b)
            if (tile[a * width + b] < near_share<T> * (row_norms[a] + column_norms[b]))
                tile[a * width + b] = static_cast<T>(squared_difference(rows, first_row + a, columns, first_column + b));
    }
    loops<T>().apply_kernel(kernel, tile, height * width);
}

// Which rows are computed: all, or (for samples against themselves) only rows up to the block of columns; symmetry gives the
// rest.
enum class Part { all, upper };

// How many rows of a block of columns one thread computes: of a symmetric matrix fewer than all, but a multiple of `least`, if
// there are so few blocks that threads would wait for each other in the end.
inline std::int64_t rows_at_once(Part part, std::int64_t n_rows, std::int64_t n_blocks, std::int64_t least) {
    constexpr std::int64_t units_per_thread = 6;
    const std::int64_t stretches = part == Part::all ? 1 : units_per_thread * n_threads() / std::max<std::int64_t>(1, n_blocks);
    return stretches <= 1 ? std::max(least, n_rows) : (n_rows / stretches / least + 1) * least;
}

constexpr std::int64_t many_panels = 512;  // of so many, threads may take several at a time

template <class T, class Sink>
void visit_panel_tiles(const Kernel& kernel, const Samples<T>& rows, const Samples<T>& columns, std::int64_t first,
                       std::int64_t last, Part part, int most_for_differences, Sink&& sink) {
    const auto& vector_loops = loops<T>();
    const Pairing pairing = columns.sparse() ? Pairing::dot : dense_pairing(kernel, rows.n_features(), most_for_differences);
    const bool from_dots = pairing != kernel.pairing();
    const std::int64_t first_panel = first / panel_width, last_panel = (last + panel_width - 1) / panel_width;
    const std::int64_t n_panels = last_panel - first_panel,
                       stretch = rows_at_once(part, rows.size(), n_panels, 4 * rows_per_tile);
    const int at_once = n_panels < many_panels ? 1 : 4;
    Failure failure;
#pragma omp parallel num_threads(threads_for(rows.size() * (last - first)))
    {
        auto& packed = SparsePanel<T, panel_width>::of_this_thread();
        std::int64_t packed_panel = -1;
        alignas(64) T tile[rows_per_tile * panel_width];
#pragma omp for collapse(2) schedule(dynamic, at_once)
        for (std::int64_t p = last_panel - 1; p >= first_panel; --p)  // those with the most rows first
            for (std::int64_t start = 0; start < rows.size(); start += stretch)
                failure.guard([&] {
                    const std::int64_t from = p * panel_width;
                    const int present = static_cast<int>(std::min<std::int64_t>(panel_width, columns.size() - from));
                    const std::int64_t end = std::min(start + stretch, part == Part::all ? rows.size() : from + present);
                    if (start >= end) return;
                    if (columns.sparse() && packed_panel != p) packed.pack(columns, from, present, [](T x) { return x; });
                    packed_panel = p;
                    const std::int64_t c0 = std::max(first, from), c1 = std::min(last, from + present);
                    for (std::int64_t r = start; r < end; r += rows_per_tile) {
                        const int height = static_cast<int>(std::min<std::int64_t>(rows_per_tile, end - r));
                        if (columns.sparse()) {
                            for (int a = 0; a < height; ++a)
                                vector_loops.dot_sparse(rows.features(r + a), rows.values(r + a), rows.n_values(r + a),
                                                        packed.place(), packed.values(), tile + a * panel_width);
                        } else {
                            vector_loops.pair_dense(pairing, rows.row(r), height, columns.panel(p), rows.n_features(), tile);
                        }
                        apply_kernel_to_tile(kernel, from_dots, rows, r, height, columns, from, panel_width, tile);
                        sink(r, height, c0, static_cast<int>(c1 - c0), tile + (c0 - from), panel_width);
                    }
                });
    }
    failure.rethrow();
}

// Columns of dense samples that are multiplied with some rows: as panels, which are written for the purpose, or by BLAS.
template <class T>
class BlockOfColumns {
public:
    BlockOfColumns(const Samples<T>& samples, std::int64_t n_rows)
        : samples_(samples), depth_(samples.n_features()),
          by_panels_(loops<T>().multiply_fast && n_rows >= fewest_rows_for_panels &&
                     sizeof(T) * panel_width * depth_ <= most_bytes_of_panel),
          panels_(by_panels_ ? static_cast<std::size_t>(columns_per_product) * depth_ : 0) {}

    int width_of_tiles() const { return by_panels_ ? panel_width : columns_per_product; }

    // The block has the columns [first, last). Panels begin at multiples of their width.
    void take(std::int64_t first, std::int64_t last) {
        first_ = first, last_ = last;
        for (std::int64_t c = first; by_panels_ && c < last; c += panel_width)
            samples_.write_panel(c / panel_width, panels_.data() + (c - first) * depth_);
    }

    // tile = the products of some rows with the columns from c on; its width is returned.
    int multiply(const Samples<T>& rows, std::int64_t r, int height, std::int64_t c, T* tile) const {
        if (by_panels_) {
            loops<T>().pair_dense(Pairing::dot, rows.row(r), height, panels_.data() + (c - first_) * depth_, depth_, tile);
            return panel_width;
        }
        const int width = static_cast<int>(last_ - c);
        blas::multiply_transposed(height, width, depth_, rows.row(r), depth_, samples_.row(c), depth_, tile, width);
        return width;
    }

private:
    static constexpr std::int64_t fewest_rows_for_panels = 16;   // fewer take less time than writing the panels
    static constexpr std::size_t most_bytes_of_panel = 1 << 20;  // it should stay in the second-level cache

    const Samples<T>& samples_;
    int depth_;
    bool by_panels_;
    Buffer<T> panels_;
    std::int64_t first_ = 0, last_ = 0;
};

template <class T, class Sink>
void visit_product_tiles(const Kernel& kernel, const Samples<T>& rows, const Samples<T>& columns, std::int64_t first,
                         std::int64_t last, Part part, Sink&& sink) {
    const bool from_dots = kernel.pairing() == Pairing::squared_distance;
    const std::int64_t first_panel = first / panel_width * panel_width;
    const std::int64_t n_blocks = (last - first_panel + columns_per_product - 1) / columns_per_product;
    const std::int64_t stretch = rows_at_once(part, rows.size(), n_blocks, rows_per_product);
    Failure failure;
#pragma omp parallel num_threads(threads_for(rows.size() * (last - first)))
    {
        std::optional<BlockOfColumns<T>> taken;
        std::int64_t taken_block = -1;
        Buffer<T> tile;
        failure.guard([&] {
            taken.emplace(columns, rows.size());
            tile = Buffer<T>(static_cast<std::size_t>(rows_per_product) * taken->width_of_tiles());
        });
#pragma omp for collapse(2) schedule(dynamic, 1)
        for (std::int64_t block = n_blocks - 1; block >= 0; --block)  // those with the most rows first
            for (std::int64_t start = 0; start < rows.size(); start += stretch)
                failure.guard([&] {
                    const std::int64_t from = first_panel + block * columns_per_product;
                    const std::int64_t to = std::min<std::int64_t>(from + columns_per_product, last);
                    const std::int64_t end = std::min(start + stretch, part == Part::all ? rows.size() : to);
                    if (start >= end) return;
                    if (taken_block != block) taken->take(from, to);
                    taken_block = block;
                    for (std::int64_t r = start; r < end; r += rows_per_product) {
                        const int height = static_cast<int>(std::min<std::int64_t>(rows_per_product, end - r));
                        for (std::int64_t c = from; c < to; c += taken->width_of_tiles()) {
                            const int width = taken->multiply(rows, r, height, c, tile.data());
                            apply_kernel_to_tile(kernel, from_dots, rows, r, height, columns, c, width, tile.data());
                            const std::int64_t c0 = std::max(first, c), c1 = std::min(to, c + width);
                            sink(r, height, c0, static_cast<int>(c1 - c0), tile.data() + (c0 - c), width);
                        }
                    }
                });
    }
    failure.rethrow();
}

// The kernel values of all counts of pairs of sets.
template <class T>
class TableOfCounts {
public:
    TableOfCounts(const Kernel& kernel, const Samples<T>& rows, const Samples<T>& columns) {
        const auto largest = [](const Samples<T>& sets) {
            return sets.size() ? *std::max_element(sets.set_sizes(), sets.set_sizes() + sets.size()) : 0;
        };
        const int of_rows = largest(rows), of_columns = largest(columns);
        size_ = 1 + (kernel.pairing() == Pairing::dot ? std::min(of_rows, of_columns) : of_rows + of_columns);
        const T one = rows.stored_value() * rows.stored_value();
        for (int k = 0; k < size_; ++k) values_[k] = one * static_cast<T>(k);
        loops<T>().apply_kernel(kernel, values_, size_);
    }
    void look_up(const std::uint8_t* counts, int n, T* out) const { loops<T>().look_up(values_, size_, counts, n, out); }

private:
    T values_[largest_count + 1];
    int size_;
};

template <class T, class Sink>
void visit_count_tiles(const Kernel& kernel, const Samples<T>& rows, const Samples<T>& columns, std::int64_t first,
                       std::int64_t last, Part part, Sink&& sink) {
    const auto& vector_loops = loops<T>();
    const TableOfCounts<T> table(kernel, rows, columns);
    const std::int64_t n_blocks = (last - first + count_width - 1) / count_width;
    const std::int64_t stretch = rows_at_once(part, rows.size(), n_blocks, 8 * rows_of_counts);
    Failure failure;
#pragma omp parallel num_threads(threads_for(rows.size() * (last - first)))
    {
        auto& packed = SparsePanel<std::uint8_t, count_width>::of_this_thread();
        std::int64_t packed_block = -1;
        alignas(64) std::uint8_t counts[count_width];
        alignas(64) T tile[rows_of_counts * count_width];
#pragma omp for collapse(2) schedule(dynamic, 1)
        for (std::int64_t block = n_blocks - 1; block >= 0; --block)  // those with the most rows first
            for (std::int64_t start = 0; start < rows.size(); start += stretch)
                failure.guard([&] {
                    const std::int64_t c = first + block * count_width;
                    const int width = static_cast<int>(std::min<std::int64_t>(count_width, last - c));
                    const std::int64_t end = std::min(start + stretch, part == Part::all ? rows.size() : c + width);
                    if (start >= end) return;
                    if (packed_block != block) packed.pack(columns, c, width, [](T) { return std::uint8_t(1); });
                    packed_block = block;
                    for (std::int64_t r = start; r < end; r += rows_of_counts) {
                        const int height = static_cast<int>(std::min<std::int64_t>(rows_of_counts, end - r));
                        for (int a = 0; a < height; ++a) {
                            vector_loops.count_common(rows.features(r + a), rows.n_values(r + a), packed.place(), packed.values(),
                                                      counts);
                            if (kernel.pairing() != Pairing::dot)
                                vector_loops.count_different(rows.set_sizes()[r + a], columns.set_sizes() + c, width, counts);
                            table.look_up(counts, width, tile + a * count_width);
                        }
                        sink(r, height, c, width, tile, count_width);
                    }
                });
    }
    failure.rethrow();
}

// Walk the columns [first, last) of `columns` against all `rows`; the columns need panels unless they are sparse or have many
// features.
template <class T, class Sink>
void visit_tiles(const Kernel& kernel, const Samples<T>& rows, const Samples<T>& columns, std::int64_t first, std::int64_t last,
                 Sink&& sink, Part part = Part::all, int most_for_differences = most_features_for_differences) {
    if (kernel.pairing() != Pairing::manhattan_distance && are_alike_sets(rows, columns))
        visit_count_tiles(kernel, rows, columns, first, last, part, sink);
    else if (columns.sparse() || columns.has_panels())
        visit_panel_tiles(kernel, rows, columns, first, last, part, most_for_differences, sink);
    else
        visit_product_tiles(kernel, rows, columns, first, last, part, sink);
}

// Whether the panels of all samples are to be kept. The Manhattan distance has no matrix product.
inline bool wants_panels(const Kernel& kernel, int n_features) {
    return n_features <= most_features_for_panels || kernel.pairing() == Pairing::manhattan_distance;
}

}  // namespace maxmargin
