#include "maxmargin/gram.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "maxmargin/threads.hpp"
#include "maxmargin/tiles.hpp"

namespace maxmargin {

template <class T>
RowCache<T>::RowCache(std::int64_t n_rows, std::vector<std::int64_t> segments, std::int64_t budget_bytes)
    : segments_(std::move(segments)), width_(1) {
    for (int s = 0; s < n_segments(); ++s) width_ = std::max(width_, segment_end(s) - segment_start(s));
    capacity_ = std::min(n_rows * n_segments(), budget_bytes / (width_ * static_cast<std::int64_t>(sizeof(T))));
    if (capacity_ > 0) slots_.assign(static_cast<std::size_t>(n_rows) * n_segments(), -1);
    storage_ = Buffer<T>(capacity_ * width_);
}

template <class T>
bool RowCache<T>::holds_all(std::int32_t row, const std::int32_t* members, int n_members) const {
    if (capacity_ == 0) return false;
    const std::int32_t* end = members + n_members;
    for (int s = 0; s < n_segments(); ++s)
        if (!holds(row, s) && std::lower_bound(members, end, segments_[s]) != std::lower_bound(members, end, segments_[s + 1]))
            return false;
    return true;
}

template <class T>
T* RowCache<T>::claim(std::int32_t row, int segment) {
    if (capacity_ == 0) return nullptr;
    std::int64_t s;
    if (!given_back_.empty()) {
        s = given_back_.back();
        given_back_.pop_back();
    } else if (static_cast<std::int64_t>(owners_.size()) < capacity_) {
        s = static_cast<std::int64_t>(owners_.size());
        owners_.emplace_back();
        last_use_.push_back(0);
    } else {
        // a clock hand finds the first block not used in this round or the one before, else any block not used in this round
        s = -1;
        for (std::int64_t tried = 0; tried < capacity_; ++tried, hand_ = (hand_ + 1) % capacity_) {
            if (last_use_[hand_] == clock_) continue;
            if (s < 0) s = hand_;
            if (last_use_[hand_] + 1 < clock_) {
                s = hand_;
                break;
            }
        }
        if (s < 0) return nullptr;
        slot_of(owners_[s].row, owners_[s].segment) = -1;
    }
    slot_of(row, segment) = s;
    owners_[s] = {row, segment};
    last_use_[s] = clock_;
    return slot(s);
}

template <class T>
void RowCache<T>::release_cross_blocks() {
    for (std::size_t s = 0; s < owners_.size(); ++s) {
        Owner& owner = owners_[s];
        if (owner.row < 0 || (owner.row >= segment_start(owner.segment) && owner.row < segment_end(owner.segment))) continue;
        slot_of(owner.row, owner.segment) = -1;
        owner.row = -1;
        given_back_.push_back(static_cast<std::int64_t>(s));
    }
}

template <class T>
Gram<T>::Gram(Kernel kernel, Samples<T> samples, std::vector<std::int64_t> segments, std::int64_t cache_bytes)
    : kernel_(kernel), samples_(std::move(samples)), cache_(samples_.size(), std::move(segments), cache_bytes) {
    if (wants_panels(kernel_, samples_.n_features())) samples_.make_panels();
}

template <class T>
bool Gram<T>::accumulate(const std::int32_t* rows, const double* weights, std::int64_t n_rows, const std::vector<int>& segments,
                         double* out, int n_outputs, const std::uint8_t* known) {
    std::int64_t stride = 0;
    for (int s : segments) stride += cache_.segment_end(s) - cache_.segment_start(s);
    bool left_out = false;
    for (int s : segments) {
        left_out |= accumulate_segment(rows, weights, n_rows, s, out, n_outputs, stride, known);
        out += cache_.segment_end(s) - cache_.segment_start(s);
    }
    return left_out;
}

// out[o * stride + c] += sum_a weights[o * n_weights + a] rows[a][c], c < width, for each output o. With several outputs most
// weights are zero (a sample has shares in few classes), and their rows are skipped.
template <class T>
void accumulate_each(const T* const* rows, int n_rows, int width, const double* weights, std::int64_t n_weights, double* out,
                     int n_outputs, std::int64_t stride) {
    if (n_outputs == 1) {
        loops<T>().accumulate(rows, n_rows, width, weights, out);
        return;
    }
    const T* chosen[rows_per_product];
    double factors[rows_per_product];
    for (int o = 0; o < n_outputs; ++o, weights += n_weights, out += stride) {
        int count = 0;
        for (int a = 0; a < n_rows; ++a)
            if (weights[a] != 0.0) chosen[count] = rows[a], factors[count++] = weights[a];
        loops<T>().accumulate(chosen, count, width, factors, out);
    }
}

// The same sums over many rows and columns, in parallel.
template <class T>
void accumulate_rows(const std::vector<const T*>& rows, const double* weights, std::int64_t width, double* out, int n_outputs = 1,
                     std::int64_t out_stride = 0) {
    constexpr std::int64_t stretch = 2048;  // columns at a time, so that their sums stay in the first-level cache
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_for(static_cast<std::int64_t>(rows.size()) * width))
    for (std::int64_t c = 0; c < width; c += stretch) {
        const T* pointers[64];
        for (std::size_t a = 0; a < rows.size(); a += 64) {
            const int count = static_cast<int>(std::min<std::size_t>(64, rows.size() - a));
            for (int b = 0; b < count; ++b) pointers[b] = rows[a + b] + c;
            accumulate_each(pointers, count, static_cast<int>(std::min(stretch, width - c)), weights + a,
                            static_cast<std::int64_t>(rows.size()), out + c, n_outputs, out_stride);
        }
    }
}

template <class T>
void accumulate_from(const T* matrix, std::int64_t stride, const std::int32_t* rows, const double* weights, std::int64_t n_rows,
                     std::int64_t first, std::int64_t last, double* out) {
    std::vector<const T*> starts(n_rows);
    for (std::int64_t a = 0; a < n_rows; ++a) starts[a] = matrix + rows[a] * stride + first;
    accumulate_rows(starts, weights, last - first, out);
}

template <class T>
void fill_tile_from(const T* matrix, std::int64_t stride, const std::int32_t* members, int n_members, Tile<T>& tile) {
    tile.resize(n_members);
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads_for(static_cast<std::int64_t>(n_members) * n_members))
    for (int a = 0; a < n_members; ++a) {
        const T* from = matrix + members[a] * stride;
        T* to = tile.row(a);
        for (int b = 0; b < n_members; ++b) to[b] = from[members[b]];
    }
}

void pair_all(const Kernel& kernel, Samples<double>& samples, double* pairs) {
    if (!samples.sparse() && wants_panels(kernel, samples.n_features())) samples.make_panels();
    const std::int64_t n = samples.size();
    visit_tiles(kernel.bare(), samples, samples, 0, n,
                [&](std::int64_t r, int height, std::int64_t c, int width, const double* tile, int stride) {
                    for (int a = 0; a < height; ++a) std::copy_n(tile + a * stride, width, pairs + (r + a) * n + c);
                });
}

void apply_kernel_to(const Kernel& kernel, const double* pairs, std::int64_t pairs_stride, std::int64_t n_rows,
                     std::int64_t n_columns, double* matrix, float* rounded, std::int64_t stride) {
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads_for(n_rows* n_columns))
    for (std::int64_t r = 0; r < n_rows; ++r) {
        double* row = matrix + r * stride;
        std::copy_n(pairs + r * pairs_stride, n_columns, row);
        loops<double>().apply_kernel(kernel, row, static_cast<int>(n_columns));
        loops<double>().round(row, static_cast<int>(n_columns), rounded + r * stride);
    }
}

void products_from(const double* matrix, std::int64_t stride, const std::int32_t* at, std::int64_t n_at, const double* weights,
                   std::int64_t n_weights, double* out) {
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads_for(n_at* n_weights))
    for (std::int64_t a = 0; a < n_at; ++a) {
        const double* row = matrix + at[a] * stride;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t c = 0; c < n_weights; ++c) sum += row[c] * weights[c];
        out[a] = sum;
    }
}

void symmetric_products_from(const double* matrix, std::int64_t stride, const std::vector<std::int32_t>& rows,
                             const double* weights, std::int64_t n_weights, double* out) {
    constexpr std::size_t at_once = 4;
    std::fill_n(out, n_weights, 0.0);
    for (std::size_t a = 0; a < rows.size(); a += at_once) {
        const std::size_t end = std::min(a + at_once, rows.size());
        const std::int64_t shared = end - a == at_once ? rows[end - 1] + 1 : n_weights;  // from here on, columns of four rows
        const double* starts[at_once];
        double of_rows[at_once], sums[at_once] = {};
        for (std::size_t b = a; b < end; ++b) {
            const std::int64_t r = rows[b];
            const double* row = matrix + r * stride;
            starts[b - a] = row + shared, of_rows[b - a] = weights[r];
            sums[b - a] = row[r] * weights[r];
            for (std::int64_t c = r + 1; c < shared; ++c) sums[b - a] += row[c] * weights[c], out[c] += row[c] * weights[r];
        }
        if (shared < n_weights)
            loops<double>().multiply_both_ways(starts, static_cast<int>(n_weights - shared), of_rows, weights + shared,
                                               out + shared, sums);
        for (std::size_t b = a; b < end; ++b) out[rows[b]] += sums[b - a];
    }
}

// Columns are copied to be side by side if they are at most this share of all, and if they are met by this many rows.
constexpr double most_to_copy = 0.85;
constexpr std::size_t fewest_rows_for_copy = 128;

template <class T>
bool Gram<T>::accumulate_segment(const std::int32_t* rows, const double* weights, std::int64_t n_rows, int segment, double* out,
                                 int n_outputs, std::int64_t out_stride, const std::uint8_t* known) {
    const std::int64_t first = cache_.segment_start(segment), last = cache_.segment_end(segment);
    cache_.begin_use();

    std::vector<const T*> kept;
    std::vector<std::int32_t> missing;
    std::vector<std::int64_t> kept_at, missing_at;
    for (std::int64_t a = 0; a < n_rows; ++a) {
        if (cache_.holds(rows[a], segment)) {
            cache_.touch(rows[a], segment);
            kept.push_back(cache_.find(rows[a], segment));
            kept_at.push_back(a);
        } else {
            missing.push_back(rows[a]);
            missing_at.push_back(a);
        }
    }
    auto weights_at = [&](const std::vector<std::int64_t>& places) {
        std::vector<double> taken;
        taken.reserve(places.size() * n_outputs);
        for (int o = 0; o < n_outputs; ++o)
            for (std::int64_t a : places) taken.push_back(weights[o * n_rows + a]);
        return taken;
    };
    const std::vector<double> kept_weights = weights_at(kept_at), missing_weights = weights_at(missing_at);
    std::vector<T*> places(missing.size());
    for (std::size_t a = 0; a < missing.size(); ++a)
        places[a] = is_expected(missing[a]) ? cache_.claim(missing[a], segment) : nullptr;

    accumulate_rows(kept, kept_weights.data(), last - first, out, n_outputs, out_stride);
    if (missing.empty()) return false;
    const bool complete = std::any_of(places.begin(), places.end(), [](const T* place) { return place != nullptr; });
    if (known && n_outputs == 1 && !complete && missing.size() >= fewest_rows_for_copy) {
        std::vector<std::int32_t> others;
        for (std::int64_t c = first; c < last; ++c)
            if (!known[c]) others.push_back(static_cast<std::int32_t>(c));
        if (static_cast<double>(others.size()) <= most_to_copy * static_cast<double>(last - first)) {
            const auto n_missing = static_cast<std::int64_t>(missing.size());
            const Samples<T> chosen(samples_, missing.data(), n_missing);
            Samples<T> columns(samples_, others.data(), static_cast<std::int64_t>(others.size()));
            if (wants_panels(kernel_, samples_.n_features())) columns.make_panels();
            std::vector<double> sums(others.size());
            weighted_sums(kernel_, chosen, columns, missing_weights.data(), 1, {n_missing}, sums.data());
            entries_computed_ += n_missing * columns.size();
            for (std::size_t k = 0; k < others.size(); ++k) out[others[k] - first] += sums[k];
            return true;
        }
    }
    entries_computed_ += static_cast<std::int64_t>(missing.size()) * (last - first);
    const Samples<T> chosen(samples_, missing.data(), static_cast<std::int64_t>(missing.size()));
    visit_tiles(kernel_, chosen, samples_, first, last,
                [&](std::int64_t r, int height, std::int64_t c, int width, const T* tile, int stride) {
                    const T* pointers[rows_per_product];
                    for (int a = 0; a < height; ++a) {
                        pointers[a] = tile + a * stride;
                        if (places[r + a]) std::copy_n(pointers[a], width, places[r + a] + (c - first));
                    }
                    accumulate_each(pointers, height, width, missing_weights.data() + r,
                                    static_cast<std::int64_t>(missing.size()), out + (c - first), n_outputs, out_stride);
                });
    return false;
}

// Write the part of a block on or above the diagonal to the matrix, and its mirror image below. The block holds the rows from
// `first_row` on and the columns from `first_column` on of the members `at`; place k of them is row (and column) at[k].
template <class T>
void write_mirrored(const T* block, int stride, const int* at, std::int64_t first_row, int height, std::int64_t first_column,
                    int width, Tile<T>& out) {
    constexpr int edge = 16;  // size of squares that stay in the first-level cache while they are turned
    const int *rows = at + first_row, *columns = at + first_column;
    const auto diagonal = static_cast<int>(first_row - first_column);  // row a meets the diagonal in column a + diagonal
    const bool together = width > 0 && columns[width - 1] - columns[0] == width - 1;
    for (int a = 0; a < height; ++a) {
        const int from = std::max(0, a + diagonal);
        if (from >= width) break;
        if (together)
            std::copy(block + a * stride + from, block + a * stride + width, out.row(rows[a]) + columns[from]);
        else
            for (int b = from; b < width; ++b) out.row(rows[a])[columns[b]] = block[a * stride + b];
    }
    for (int i = 0; i < height; i += edge)
        for (int b = 0; b < width; ++b) {
            T* to = out.row(columns[b]);
            const int end = std::min({i + edge, height, b - diagonal});
            for (int a = i; a < end; ++a) to[rows[a]] = block[a * stride + b];
        }
}

// The kernel matrix of samples with themselves, in the rows and columns `at` of a tile.
template <class T>
void fill_symmetric(const Kernel& kernel, const Samples<T>& samples, const int* at, Tile<T>& out) {
    visit_tiles(
        kernel, samples, samples, 0, samples.size(),
        [&](std::int64_t r, int height, std::int64_t c, int width, const T* tile, int stride) {
            write_mirrored(tile, stride, at, r, height, c, width, out);
        },
        Part::upper);
}

template <class T>
void Gram<T>::fill_tile(const std::int32_t* members, int n_members, Tile<T>& out) {
    out.resize(n_members);
    std::vector<int> known, unknown;  // the members whose rows are kept, and the others
    std::vector<std::int32_t> ids;    // of the others
    for (int a = 0; a < n_members; ++a) (cache_.holds_all(members[a], members, n_members) ? known : unknown).push_back(a);
    for (int a : unknown) ids.push_back(members[a]);
    Samples<T> chosen(samples_, ids.data(), static_cast<std::int64_t>(ids.size()));
    if (wants_panels(kernel_, samples_.n_features())) chosen.make_panels();
    fill_symmetric(kernel_, chosen, unknown.data(), out);
    const int n_known = static_cast<int>(known.size()), n_unknown = static_cast<int>(unknown.size());
#pragma omp parallel num_threads(threads_for(static_cast<std::int64_t>(n_known) * n_members))
    {
#pragma omp for schedule(dynamic, 16)
        for (int k = 0; k < n_known; ++k) {
            T* to = out.row(known[k]);
            for (int s = 0, b = 0; s < cache_.n_segments(); ++s) {
                const T* from = cache_.find(members[known[k]], s);
                for (; b < n_members && members[b] < cache_.segment_end(s); ++b)
                    to[b] = from[members[b] - cache_.segment_start(s)];
            }
        }
#pragma omp for schedule(dynamic, 16)
        for (int u = 0; u < n_unknown; ++u)
            for (int k = 0; k < n_known; ++k) out.row(unknown[u])[known[k]] = out.row(known[k])[unknown[u]];
    }
}

// One row of the kernel matrix of `samples` with themselves, padded with zeros to whole chunks.
static_assert(chunk == panel_width, "a row of panels fills a row of chunks");

template <class T>
void kernel_row(const Kernel& kernel, const Samples<T>& samples, std::int32_t r, T* out) {
    if (samples.has_panels()) {  // a fast path: rows of small problems are computed one by one, many times
        // a single row against panels takes as long as reading them, so that differences cost no more than products
        const Pairing pairing = kernel.pairing();
        for (std::int64_t c = 0; c < samples.size(); c += panel_width) {
            loops<T>().pair_dense(pairing, samples.row(r), 1, samples.panel(c / panel_width), samples.n_features(), out + c);
            loops<T>().apply_kernel(kernel, out + c, panel_width);
        }
        std::fill(out + samples.size(), out + in_chunks(static_cast<int>(samples.size())), T(0));
        return;
    }
    if (samples.sparse()) {  // scatter the row over all features once; the other samples are then read in their stored order
        static thread_local std::vector<T> of_this_thread;
        std::vector<T>& scattered = of_this_thread;
        if (scattered.size() < static_cast<std::size_t>(samples.n_features())) scattered.resize(samples.n_features(), T(0));
        for (std::int64_t v = 0; v < samples.n_values(r); ++v) scattered[samples.features(r)[v]] = samples.values(r)[v];
        for (std::int64_t c = 0; c < samples.size(); ++c) {
            T sum = 0;
            for (std::int64_t v = 0; v < samples.n_values(c); ++v)
                sum += scattered[samples.features(c)[v]] * samples.values(c)[v];
            out[c] = sum;
        }
        for (std::int64_t v = 0; v < samples.n_values(r); ++v) scattered[samples.features(r)[v]] = T(0);
        const bool from_dots = kernel.pairing() == Pairing::squared_distance;
        apply_kernel_to_tile(kernel, from_dots, samples, r, 1, samples, 0, static_cast<int>(samples.size()), out);
    } else {
        const Samples<T> one(samples, &r, 1);
        visit_tiles(kernel, one, samples, 0, samples.size(),
                    [&](std::int64_t, int, std::int64_t c, int width, const T* tile, int) { std::copy_n(tile, width, out + c); });
    }
    std::fill(out + samples.size(), out + in_chunks(static_cast<int>(samples.size())), T(0));
}

// Samples of more bytes than this do not stay in the cache while row after row is computed from them, and those without panels
// are computed by matrix products: it is faster to compute the whole matrix by blocks, each row once.
constexpr std::int64_t most_bytes_for_rows = 4 << 20;

template <class T>
void solve_small(const Gram<T>& gram, SmallProblem<T>& problem, const std::vector<double>& diagonal, const Deadline& deadline,
                 Tile<T>& tile) {
    problem.result.violation = std::numeric_limits<double>::infinity();
    if (deadline.passed()) return;
    Samples<T> samples(gram.samples(), problem.members, problem.size);
    if (wants_panels(gram.kernel(), samples.n_features())) samples.make_panels();
    std::vector<double> own(problem.size);
    for (int a = 0; a < problem.size; ++a) own[a] = diagonal[problem.members[a]] + (problem.shift ? problem.shift[a] : 0.0);
    const bool by_rows = samples.sparse() || samples.has_panels();
    if (!by_rows || samples.n_stored() * static_cast<std::int64_t>(sizeof(T)) > most_bytes_for_rows) {
        std::vector<int> all(problem.size);
        std::iota(all.begin(), all.end(), 0);
        tile.resize(problem.size);
        fill_symmetric(gram.kernel(), samples, all.data(), tile);
        for (int a = 0; a < problem.size && problem.shift; ++a) tile.row(a)[a] += static_cast<T>(problem.shift[a]);
    } else {  // most variables of a small problem never move, so most rows are never needed
        tile.make_lazy(std::move(own), [&](int a, T* out) {
            kernel_row(gram.kernel(), samples, a, out);
            if (problem.shift) out[a] += static_cast<T>(problem.shift[a]);
        });
    }
    const std::vector<int> edges = problem.coupled ? std::vector<int>{0, problem.size} : std::vector<int>{};
    TileProblem<T> inner{tile,  problem.lower,     problem.upper,     problem.beta, problem.gradient,
                         edges, problem.tolerance, problem.max_steps, deadline};
    inner.polish = problem.polish;
    problem.result = loops<T>().solve_tile(inner);
}

template <class T>
void solve_tiles(const Gram<T>& gram, std::vector<SmallProblem<T>>& problems, const Deadline& deadline) {
    std::int64_t entries = 0;
    for (const SmallProblem<T>& problem : problems) entries += static_cast<std::int64_t>(problem.size) * problem.size;
    std::vector<double> diagonal(gram.size());
    gram.diagonal(diagonal.data());
    Failure failure;
#pragma omp parallel num_threads(threads_for(entries))
    {
        Tile<T> tile;
#pragma omp for schedule(dynamic, 1)
        for (std::size_t i = 0; i < problems.size(); ++i)
            failure.guard([&] { solve_small(gram, problems[i], diagonal, deadline, tile); });
    }
    failure.rethrow();
}

template <class T>
void Gram<T>::diagonal(double* out) const {
    for (std::int64_t i = 0; i < size(); ++i) {
        T value = kernel_.pairing() == Pairing::dot ? samples_.norms()[i] : T(0);
        loops<T>().apply_kernel(kernel_, &value, 1);
        out[i] = value;
    }
}

// sums[o * n + j] += sum_a weights[o * stride_w + a] tile[a * stride + j]
template <class T>
void add_products(const T* tile, int n_rows, int width, int stride, const double* weights, std::int64_t stride_w, int n_outputs,
                  double* sums, std::int64_t n) {
    const auto& vector_loops = loops<T>();
    if (n_outputs < 4 || stride != panel_width || n_rows > rows_per_tile) {
        const T* pointers[rows_per_product];
        for (int a = 0; a < n_rows; ++a) pointers[a] = tile + a * stride;
        for (int o = 0; o < n_outputs; ++o)
            vector_loops.accumulate(pointers, n_rows, width, weights + o * stride_w, sums + o * n);
        return;
    }
    // many outputs: the tile serves as a panel whose features are its rows, and the sums are a matrix product
    constexpr int at_once = 48;
    alignas(64) T factors[at_once * rows_per_tile], products[at_once * panel_width];
    for (int first = 0; first < n_outputs; first += at_once) {
        const int count = std::min(at_once, n_outputs - first);
        for (int o = 0; o < count; ++o)
            for (int a = 0; a < n_rows; ++a) factors[o * n_rows + a] = static_cast<T>(weights[(first + o) * stride_w + a]);
        vector_loops.pair_dense(Pairing::dot, factors, count, tile, n_rows, products);
        for (int o = 0; o < count; ++o)
            for (int j = 0; j < width; ++j) sums[(first + o) * n + j] += products[o * panel_width + j];
    }
}

template <class T>
void weighted_sums(const Kernel& kernel, const Samples<T>& support, const Samples<T>& queries, const double* weights,
                   int n_outputs, const std::vector<std::int64_t>& group_ends, double* sums) {
    const std::int64_t n = queries.size();
    visit_tiles(kernel, support, queries, 0, n,
                [&](std::int64_t r, int height, std::int64_t c, int width, const T* tile, int stride) {
                    // a tile may hold rows of several groups
                    std::int64_t g = std::upper_bound(group_ends.begin(), group_ends.end(), r) - group_ends.begin();
                    for (int a = 0; a < height; ++g) {
                        const int count = static_cast<int>(std::min<std::int64_t>(height, group_ends[g] - r)) - a;
                        add_products(tile + a * stride, count, width, stride, weights + r + a, support.size(), n_outputs,
                                     sums + g * n_outputs * n + c, n);
                        a += count;
                    }
                });
}

#define MAXMARGIN_GRAM(T)                                                                                                 \
    template class RowCache<T>;                                                                                           \
    template class Gram<T>;                                                                                               \
    template void solve_tiles(const Gram<T>&, std::vector<SmallProblem<T>>&, const Deadline&);                            \
    template void fill_tile_from(const T*, std::int64_t, const std::int32_t*, int, Tile<T>&);                             \
    template void accumulate_from(const T*, std::int64_t, const std::int32_t*, const double*, std::int64_t, std::int64_t, \
                                  std::int64_t, double*);                                                                 \
    template void weighted_sums(const Kernel&, const Samples<T>&, const Samples<T>&, const double*, int,                  \
                                const std::vector<std::int64_t>&, double*);
MAXMARGIN_GRAM(float)
MAXMARGIN_GRAM(double)

}  // namespace maxmargin
