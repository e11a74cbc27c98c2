// Minimum and maximum by value: std::min and std::max return references, which keeps reductions from being vectorised.
#pragma once
#include "maxmargin/tile_problem.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

template <class V>
inline V smaller(V a, V b) {
    return a < b ? a : b;
}
template <class V>
inline V larger(V a, V b) {
    return a > b ? a : b;
}

// An argmax over a row is: the maximum of each chunk, then the place inside the winning chunk.
template <class V>
inline int place_of(const V* values, V wanted) {
    int at = chunk - 1;
#pragma omp simd reduction(min : at)
    for (int k = 0; k < chunk; ++k) at = values[k] == wanted ? smaller(at, k) : at;
    return at;
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
