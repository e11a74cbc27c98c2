// Pairs of sets of features: what they have in common is counted in bytes, and the kernel value of a count is looked up.
#pragma once
#include <cstddef>
#include <cstdint>

#include "maxmargin/loops.hpp"
#include "pairings.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

typedef std::uint8_t Bytes __attribute__((vector_size(vector_bytes)));
constexpr int byte_registers = 8, byte_strip = byte_registers * vector_bytes;  // counts that stay in registers
static_assert(count_width % byte_strip == 0);

inline void count_common(const std::int32_t* features, std::int64_t n_features, const std::int32_t* place,
                         const std::uint8_t* panel, std::uint8_t* counts) {
    for (int j = 0; j < count_width; j += byte_strip) {
        Bytes sums[byte_registers] = {};
        for (std::int64_t v = 0; v < n_features; ++v) {
            const std::int32_t at = place[features[v]];
            if (at < 0) continue;
            const auto* sets = reinterpret_cast<const Bytes*>(panel + static_cast<std::ptrdiff_t>(at) * count_width + j);
#pragma GCC unroll 8
            for (int s = 0; s < byte_registers; ++s) sums[s] += sets[s];
        }
#pragma GCC unroll 8
        for (int s = 0; s < byte_registers; ++s) reinterpret_cast<Bytes*>(counts + j)[s] = sums[s];
    }
}

inline void count_different(std::uint8_t size, const std::uint8_t* sizes, int n, std::uint8_t* counts) {
#pragma omp simd
    for (int j = 0; j < n; ++j) counts[j] = static_cast<std::uint8_t>(size + sizes[j] - 2 * counts[j]);
}

// A table of up to eight registers is looked up in registers: a shuffle takes an entry for each lane from two of them. (Clang has
// no shuffle whose places are known at run time only; it reads the table from memory.)
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX2__)
template <class T, class Places>
struct TableOfRegisters {
    using Vector = typename Register<T>::type;
    static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T)), most = 8 * lanes;

    TableOfRegisters(const T* table, int n) {
        alignas(vector_bytes) T entries[most] = {};
        for (int k = 0; k < n; ++k) entries[k] = table[k];
        for (int r = 0; r < 8; ++r) registers[r] = reinterpret_cast<const Vector*>(entries)[r];
    }
    template <int n_registers>
    Vector at(Places places) const {
        Vector found = __builtin_shuffle(registers[0], registers[1], places);
#pragma GCC unroll 8
        for (int r = 2; r < n_registers; r += 2)
            found = places < r * lanes ? found : __builtin_shuffle(registers[r], registers[r + 1], places);
        return found;
    }
    template <int n_registers>
    void look_up(const std::uint8_t* counts, int n, T* out) const {
        typedef std::uint8_t Few __attribute__((vector_size(lanes), aligned(1), may_alias));
        using Stored = typename Register<T>::in_memory;
        for (int j = 0; j < n; j += lanes) {
            const Places places = __builtin_convertvector(*reinterpret_cast<const Few*>(counts + j), Places);
            *reinterpret_cast<Stored*>(out + j) = at<n_registers>(places);
        }
    }
    Vector registers[8];
};

template <class T>
struct PlaceOf;
template <>
struct PlaceOf<float> {
    typedef std::int32_t type __attribute__((vector_size(vector_bytes)));
};
template <>
struct PlaceOf<double> {
    typedef std::int64_t type __attribute__((vector_size(vector_bytes)));
};

// `n` is a multiple of the lanes, or `out` and `counts` have room for one that is.
template <class T>
void look_up(const T* table, int n_table, const std::uint8_t* counts, int n, T* out) {
    using Table = TableOfRegisters<T, typename PlaceOf<T>::type>;
    if (n_table <= 2 * Table::lanes) return Table(table, n_table).template look_up<2>(counts, n, out);
    if (n_table <= 4 * Table::lanes) return Table(table, n_table).template look_up<4>(counts, n, out);
    if (n_table <= 8 * Table::lanes) return Table(table, n_table).template look_up<8>(counts, n, out);
    for (int j = 0; j < n; ++j) out[j] = table[counts[j]];
}
#else
template <class T>
void look_up(const T* table, int, const std::uint8_t* counts, int n, T* out) {
    for (int j = 0; j < n; ++j) out[j] = table[counts[j]];
}
#endif

}  // namespace maxmargin::MAXMARGIN_LEVEL
