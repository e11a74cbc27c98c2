// Compiled once per instruction-set level with MAXMARGIN_LEVEL set to the level's name.
#include "maxmargin/loops.hpp"

#include "counts.hpp"
#include "crammer_singer.hpp"
#include "kernel_functions.hpp"
#include "linear_losses.hpp"
#include "linear_rows.hpp"
#include "pairings.hpp"
#include "tile_solver.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

template <class T>
constexpr Loops<T> table{vector_bytes >= 32,
                         pair_dense<T>,
                         dot_sparse<T>,
                         count_common,
                         count_different,
                         look_up<T>,
                         to_squared_distances<T>,
                         apply_kernel<T>,
                         round<T>,
                         accumulate<T>,
                         multiply_both_ways<T>,
                         weigh_rows<T>,
                         dot<T>,
                         add<T>,
                         square<T>,
                         {slope, duals},
                         solve_tile<T>,
                         solve_joint_tile<T>};

const Loops<float>& loops32() { return table<float>; }
const Loops<double>& loops64() { return table<double>; }

}  // namespace maxmargin::MAXMARGIN_LEVEL
