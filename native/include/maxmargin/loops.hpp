// The vector loops: one plain source (simd/), compiled once per instruction-set level, chosen at run time.
//
// A *panel* holds `panel_width` samples feature by feature: panel[k * panel_width + j] is feature k of sample j, so that a
// loop over samples walks adjacent memory and vectorises without gathers. A *tile* holds kernel values (or what they are made
// of) of some rows against the samples of a panel, row by row.
#pragma once
#include <cstddef>
#include <cstdint>

#include "maxmargin/joint_tile.hpp"
#include "maxmargin/kernel.hpp"
#include "maxmargin/linear_losses.hpp"
#include "maxmargin/tile_problem.hpp"

namespace maxmargin {

inline constexpr int panel_width = 64;
inline constexpr int count_width = 512;  // sets in a panel of sets

// A squared distance below this share of the squared norms is computed again, from differences. What is left then has a relative
// error of at most about 2 (d + 3) u / near_share for d features and the unit roundoff u.
template <class T>
inline constexpr T near_share = sizeof(T) == 4 ? T(1) / 4096 : T(1) / 1024;

template <class T>
struct Loops {
    // Whether these loops multiply as fast as a BLAS library: with registers of 32 bytes or more.
    bool multiply_fast;
    // tile[r][j] = <row r, sample j>, |row r - sample j|^2 or |row r - sample j|_1, for dense rows.
    void (*pair_dense)(Pairing, const T* rows, int n_rows, const T* panel, int n_features, T* tile);
    // tile[0][j] = <row, sample j> for one sparse row; place[k] is the position of feature k in the panel, -1 if it is not there.
    void (*dot_sparse)(const std::int32_t* features, const T* values, std::int64_t n_values, const std::int32_t* place,
                       const T* panel, T* tile);
    // counts[j] = the number of features of a set that are in set j too. A panel of sets has count_width bytes for each feature,
    // one for each set: whether the feature is in it. `place` is as for dot_sparse.
    void (*count_common)(const std::int32_t* features, std::int64_t n_features, const std::int32_t* place,
                         const std::uint8_t* panel, std::uint8_t* counts);
    // counts[j] <- size + sizes[j] - 2 counts[j]: the number of features in which two sets of these sizes differ.
    void (*count_different)(std::uint8_t size, const std::uint8_t* sizes, int n, std::uint8_t* counts);
    // out[j] = table[counts[j]], for counts below n_table.
    void (*look_up)(const T* table, int n_table, const std::uint8_t* counts, int n, T* out);
    // tile[r][j] <- |row r|^2 + |sample j|^2 - 2 tile[r][j]: squared distances from dot products. Returns the number of rows in
    // which an entry may be *near*, and which these are: there the products cancel until less than near_share of the norms is
    // left, which is mostly rounding. near_rows has room for one more than there are rows.
    int (*to_squared_distances)(T* tile, int n_rows, int n_columns, const T* row_norms, const T* column_norms, int* near_rows);
    // tile <- k(tile), where the tile holds the dot products or distances that the kernel is a function of.
    void (*apply_kernel)(const Kernel&, T* tile, int size);
    void (*round)(const T* values, int size, float* out);
    // out[j] += sum_r weights[r] tile[r][j], in float64.
    void (*accumulate)(const T* const* tile_rows, int n_rows, int n_columns, const double* weights, double* out);
    // For four rows: out[j] += sum_r weights[r] rows[r][j] and sums[r] += sum_j rows[r][j] of_columns[j], in float64.
    void (*multiply_both_ways)(const T* const* rows, int n_columns, const double* weights, const double* of_columns, double* out,
                               double* sums);
    // sums[r] = sum_j weights[j] tile[r * stride + j], j < n_columns, in eight sums of every eighth term.
    void (*weigh_rows)(const T* tile, int n_rows, int n_columns, int stride, const double* weights, double* sums);
    // <row, w>, out += weight row and |row|^2, in float64.
    double (*dot)(const T* row, const double* w, int n_features);
    void (*add)(double weight, const T* row, double* out, int n_features);
    double (*square)(const T* row, int n_features);
    LossLoops losses;  // the same for both types
    TileResult (*solve_tile)(TileProblem<T>&);
    TileResult (*solve_joint_tile)(JointTileProblem<T>&);
};

template <class T>
const Loops<T>& loops();

// The chosen instruction-set level: "x86-64-v4", "x86-64-v3" or "baseline" (on x86 that is x86-64-v2).
const char* instruction_set();

}  // namespace maxmargin
