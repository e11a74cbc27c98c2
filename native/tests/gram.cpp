// Sums of kernel rows, with and without a cache, over all segments or some.
#include <algorithm>
#include <numeric>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

// Many sums over changing rows and segments: blocks that the cache keeps, evicts or half fills must never change a sum.
template <class T>
void test_accumulate(const Kernel& kernel, Storage storage, int d, std::int64_t rows_kept) {
    const int n = 210;
    const std::vector<std::int64_t> edges{0, 70, 71, 135, n};
    const Data<T> data(n, d, 5 + d);
    std::vector<double> K(std::size_t(n) * n);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) K[std::size_t(i) * n + j] = plain_kernel(kernel, data.row(i), data.row(j), d);

    Gram<T> gram(kernel, data.samples(storage), edges, rows_kept * n * std::int64_t(sizeof(T)));
    std::mt19937 random(3);
    const std::vector<std::vector<int>> choices{{0, 1, 2, 3}, {0, 2}, {1}, {3, 0}, {2, 3}};
    for (int round = 0; round < 12; ++round) {
        const std::vector<int>& segments = choices[random() % choices.size()];
        std::vector<std::int32_t> rows(n), columns;
        std::iota(rows.begin(), rows.end(), 0);
        std::shuffle(rows.begin(), rows.end(), random);
        rows.resize(1 + random() % 40);
        for (int s : segments)
            for (std::int64_t c = edges[s]; c < edges[s + 1]; ++c) columns.push_back(static_cast<std::int32_t>(c));

        std::vector<double> weights(rows.size()), sums(columns.size(), 1.0);
        for (double& weight : weights) weight = random() % 2 ? 0.75 : -1.25;
        if (round % 3) gram.expect(rows.data(), std::int64_t(rows.size()));
        gram.accumulate(rows.data(), weights.data(), std::int64_t(rows.size()), segments, sums.data());
        double error = 0.0;
        for (std::size_t c = 0; c < columns.size(); ++c) {
            double expected = 1.0;
            for (std::size_t a = 0; a < rows.size(); ++a) expected += weights[a] * K[std::size_t(rows[a]) * n + columns[c]];
            error = std::max(error, std::abs(sums[c] - expected));
        }
        CHECK(error <= 60.0 * tolerance<T>(kernel));

        if (round % 4 == 3) gram.release_cross_blocks();
        // a tile of these rows, of which the cache has some, all or none
        std::sort(rows.begin(), rows.end());
        const int m = int(rows.size());
        Tile<T> tile;
        gram.fill_tile(rows.data(), m, tile);
        error = 0.0;
        for (int a = 0; a < m; ++a)
            for (int b = 0; b < m; ++b) error = std::max(error, std::abs(tile.row(a)[b] - K[std::size_t(rows[a]) * n + rows[b]]));
        CHECK(error <= tolerance<T>(kernel));
    }
}

template <class T>
void test_subset(Storage storage) {
    const Kernel kernel{KernelKind::rbf, 0.5};
    const Data<T> data(100, 40, 9);
    const Gram<T> gram(kernel, data.samples(storage), {0, 100}, 0);
    const std::vector<std::int32_t> members{3, 5, 50, 98, 99};
    Gram<T> part = gram.subset(members.data(), std::int64_t(members.size()));
    const std::int32_t row = 2;
    const double weight = 3.0;
    std::vector<double> sums(members.size(), 0.0);
    part.accumulate(&row, &weight, 1, {0}, sums.data());
    for (std::size_t a = 0; a < members.size(); ++a)
        CHECK(close(sums[a], 3.0 * plain_kernel(kernel, data.row(50), data.row(members[a]), 40), 3.0 * tolerance<T>(kernel)));
}

// With room for all rows each entry of those that are expected again is computed once; with none, every time.
void test_what_is_computed() {
    const int n = 150, d = 3;
    const Data<double> data(n, d, 1);
    std::vector<std::int32_t> rows(n);
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<double> weights(n, 1.0);
    std::vector<double> sums(n);
    for (const bool keep : {true, false}) {
        Gram<double> gram({KernelKind::rbf, 0.5}, data.samples(Storage::dense), {0, 50, n}, keep ? 2 * n * n * 8 : 0);
        gram.expect(rows.data(), n);
        for (int round = 0; round < 3; ++round) gram.accumulate(rows.data(), weights.data(), n, {0, 1}, sums.data());
        CHECK(gram.entries_computed() == (keep ? 1 : 3) * n * n);
    }
}

// A tile is the same whatever part of its rows is kept.
template <class T>
void test_kept_rows(const Kernel& kernel, Storage storage, int d) {
    const int n = 300;
    const Data<T> data(n, d, 4);
    std::vector<std::int32_t> members;
    for (int i = 0; i < n; i += 2) members.push_back(i);
    const int m = static_cast<int>(members.size());
    for (const int every : {1, 2, 3, 1000}) {
        Gram<T> gram(kernel, data.samples(storage), {0, 120, n}, 2 * n * n * 8);
        std::vector<std::int32_t> kept;
        for (int a = 0; a < m; a += every) kept.push_back(members[a]);
        const std::vector<double> weights(kept.size(), 1.0);
        std::vector<double> sums(n, 0.0);
        gram.expect(kept.data(), std::int64_t(kept.size()));
        gram.accumulate(kept.data(), weights.data(), std::int64_t(kept.size()), {0, 1}, sums.data());
        Tile<T> tile;
        gram.fill_tile(members.data(), m, tile);
        bool right = true;
        for (int a = 0; a < m; ++a)
            for (int b = 0; b < m; ++b)
                right = right && close(tile.row(a)[b], plain_kernel(kernel, data.row(members[a]), data.row(members[b]), d),
                                       tolerance<T>(kernel));
        CHECK(right);
        for (int a = 0; a < m; ++a) CHECK(tile.row(a)[m] == T(0));  // padding
    }
}

// Sums of a symmetric matrix from half of its entries, over rows that include all with a weight.
void test_symmetric_products(int n, int every) {
    const int stride = n + 3;
    const Data<double> data(n, 4, n);
    std::vector<double> matrix(static_cast<std::size_t>(n) * stride, 0.0), weights(n, 0.0), sums(n, -1.0);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            matrix[i * stride + j] = plain_kernel({KernelKind::rbf, 0.5}, data.row(i), data.row(j), data.d);
    std::vector<std::int32_t> rows;
    for (int i = every - 1; i < n; i += every) rows.push_back(i);
    for (std::size_t a = 0; a < rows.size(); a += 2) weights[rows[a]] = 0.1 * a - 1.0;
    symmetric_products_from(matrix.data(), stride, rows, weights.data(), n, sums.data());
    for (std::int32_t r : rows) {
        double expected = 0.0;
        for (int c = 0; c < n; ++c) expected += matrix[r * stride + c] * weights[c];
        CHECK(close(sums[r], expected, 1e-12 * n));
    }
}

void test_cache_budget() {
    CHECK(RowCache<float>(1000, {0, 400, 1000}, 4 * 600 * 7 + 100).capacity() == 7);  // a block is as wide as the widest segment
    CHECK(RowCache<float>(1000, {0, 1000}, 3999).capacity() == 0);
    CHECK(RowCache<float>(10, {0, 10}, 1 << 20).capacity() == 10);
    CHECK(RowCache<float>(10, {0, 4, 10}, 1 << 20).capacity() == 20);
}

// The least recently used block makes room, never one that is in use.
void test_eviction() {
    RowCache<double> cache(10, {0, 10}, 3 * 10 * 8);
    cache.begin_use();
    for (int row : {0, 1, 2}) CHECK(cache.claim(row, 0) != nullptr);
    CHECK(cache.claim(3, 0) == nullptr);  // all three in use
    CHECK(!cache.holds(3, 0));
    cache.begin_use();
    cache.touch(0, 0);
    cache.begin_use();
    cache.touch(0, 0);
    CHECK(cache.claim(4, 0) != nullptr);
    CHECK(cache.holds(0, 0));
    CHECK(cache.holds(4, 0));
    CHECK(cache.holds(1, 0) != cache.holds(2, 0));
}

// Blocks of a row outside its own segment are given back, and their memory is the first to be used again.
void test_release() {
    RowCache<double> cache(4, {0, 2, 4}, 1 << 20);
    cache.begin_use();
    cache.claim(0, 0);
    const double* cross = cache.claim(0, 1);
    cache.claim(3, 1);
    cache.release_cross_blocks();
    CHECK(cache.holds(0, 0));
    CHECK(!cache.holds(0, 1));
    CHECK(cache.holds(3, 1));
    CHECK(cache.find(0, 1) == nullptr);
    CHECK(cache.claim(2, 0) == cross);
    const std::int32_t members[] = {0, 1};
    CHECK(cache.holds_all(0, members, 2));
    CHECK(!cache.holds_all(3, members, 2));
}

template <class T>
void test_sums() {
    for (const auto& [name, kernel] : kernels())  // one kernel for each pairing; its scalar function is tested elsewhere
        for (Storage storage : {Storage::dense, Storage::csr64})
            for (int d : {2, 57, 300})
                for (std::int64_t rows_kept : {0, 5, 45, 1000}) {
                    const bool first = kernel.kind == KernelKind::linear || kernel.kind == KernelKind::rbf ||
                                       kernel.kind == KernelKind::laplacian;
                    if (!first || !offered(kernel, storage)) continue;
                    run(std::string("accumulate ") + name + ", " + name_of<T>() + ", " + name_of(storage) +
                            ", d = " + std::to_string(d) + ", cache of " + std::to_string(rows_kept) + " rows",
                        [&] { test_accumulate<T>(kernel, storage, d, rows_kept); });
                }
}

}  // namespace

void test_gram() {
    test_sums<float>();
    test_sums<double>();
    for (Storage storage : {Storage::dense, Storage::csr32}) {
        run("subset, float", [&] { test_subset<float>(storage); });
        run("subset, double", [&] { test_subset<double>(storage); });
        for (int d : {8, 57, 300}) {
            const Kernel kernel{KernelKind::rbf, 0.5};
            run("kept rows, float, d = " + std::to_string(d), [&] { test_kept_rows<float>(kernel, storage, d); });
            run("kept rows, double, d = " + std::to_string(d), [&] { test_kept_rows<double>(kernel, storage, d); });
        }
    }
    for (int n : {1, 4, 7, 64, 133})
        for (int every : {1, 2, 9})
            run("sums of a symmetric matrix, " + std::to_string(n) + ", every " + std::to_string(every),
                [&] { test_symmetric_products(n, every); });
    run("entries computed", test_what_is_computed);
    run("cache budget", test_cache_budget);
    run("cache eviction", test_eviction);
    run("cache release", test_release);
}

}  // namespace tests
