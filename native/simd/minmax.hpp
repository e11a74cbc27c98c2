// Minimum and maximum by value: std::min and std::max return references, which keeps reductions from being vectorised.
#pragma once

namespace maxmargin::MAXMARGIN_LEVEL {

template <class V>
inline V smaller(V a, V b) {
    return a < b ? a : b;
}
template <class V>
inline V larger(V a, V b) {
    return a > b ? a : b;
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
