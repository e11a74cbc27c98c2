// Numbers in the lanes of registers, and the search for the least of many and its place.
//
// A strip is a row of `sets` registers. The search keeps the least number of each lane of a strip: a comparison waits for the one
// before it in the same lane only, so several are under way at once. What the lanes have found is compared at the end. Of equal
// numbers the first is taken, so the result does not depend on how the numbers are shared out among threads.
#pragma once
#include <limits>

#include "maxmargin/tile_problem.hpp"
#include "minmax.hpp"
#include "pairings.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

using Floats = Register<float>::type;
using FloatsAt = Register<float>::in_memory;
typedef int Places __attribute__((vector_size(vector_bytes)));
typedef int PlacesAt __attribute__((vector_size(vector_bytes), aligned(alignof(int)), may_alias));

constexpr int lanes = vector_bytes / static_cast<int>(sizeof(float));
constexpr int sets = vector_bytes == 64 ? 4 : 2, strip = sets * lanes;  // as many as there are registers for
static_assert(chunk % strip == 0);

inline Floats load(const float* values) { return *reinterpret_cast<const FloatsAt*>(values); }
inline void store(Floats values, float* to) { *reinterpret_cast<FloatsAt*>(to) = values; }
inline Floats smaller_of(Floats a, Floats b) { return a < b ? a : b; }
inline Floats larger_of(Floats a, Floats b) { return a > b ? a : b; }

inline float largest_lane(Floats values) {
    alignas(vector_bytes) float of_lanes[lanes];
    store(values, of_lanes);
    float largest = of_lanes[0];
#pragma omp simd reduction(max : largest)
    for (int l = 0; l < lanes; ++l) largest = larger(largest, of_lanes[l]);
    return largest;
}

struct Found {
    float value;
    int place;
};

// The places of a row of lanes that begins at the given one.
inline Places places_from(int first) {
    Places places;
    for (int l = 0; l < lanes; ++l) places[l] = l;
    return places + first;
}

class LeastOfLanes {
public:
    // Numbers that are not below `limit` are not found.
    explicit LeastOfLanes(float limit) {
        for (int s = 0; s < sets; ++s) least[s] = limit - Floats{}, first[s] = Places{};
    }

    // Look at the numbers of a set of a strip; `places` are those of the first set.
    void look(int set, Floats values, Places places) {
        const Places less = values < least[set];
        first[set] = less ? places : first[set];
        least[set] = smaller_of(values, least[set]);
    }

    Found found() const {
        alignas(vector_bytes) float values[strip];
        alignas(vector_bytes) int places[strip];
        for (int s = 0; s < sets; ++s) {
            store(least[s], values + s * lanes);
            *reinterpret_cast<PlacesAt*>(places + s * lanes) = first[s] + s * lanes;
        }
        float value = values[0];
#pragma omp simd reduction(min : value)
        for (int k = 0; k < strip; ++k) value = smaller(value, values[k]);
        int place = std::numeric_limits<int>::max();
#pragma omp simd reduction(min : place)
        for (int k = 0; k < strip; ++k) place = values[k] == value ? smaller(place, places[k]) : place;
        return {value, place};
    }

private:
    Floats least[sets];
    Places first[sets];
};

}  // namespace maxmargin::MAXMARGIN_LEVEL
