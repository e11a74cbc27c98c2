// The numbers that stand for rounding errors in the solvers of a tile, and for "no curvature" and "may not move".
#pragma once
#include <limits>

namespace maxmargin::MAXMARGIN_LEVEL {

// Added to the gradient of a variable that may not move: larger than any gradient.
constexpr double forbidden = 1e300;

// Least curvatures, so that no step divides by zero.
constexpr float least_curvature = 1e-34f;          // of any direction: that of samples with all features zero; a normal float
constexpr float curvature_floor = 1e-12f;          // of a pair, relative to its diagonal entries, as in LIBSVM
constexpr float curvature_floor_of_tile = 1e-24f;  // of a pair, relative to the largest diagonal entry of the tile
constexpr float least_squared_sine = 1e-6f;        // of the angle between two samples, in float32

// Rounding errors.
constexpr double rounding_of_sum = 2e-16;     // of a sum, relative to the sizes of its terms
constexpr double rounding_of_newton = 1e-14;  // of a variable after a Newton step, relative to the sizes of all
constexpr double rank_tolerance = 1e-14;      // relative pivot below which one constraint follows from others

// Added to the diagonal of a Hessian of samples scaled to size one, because rounding may have made it indefinite. Where the
// factorisation fails, it is repeated with a larger ridge.
template <class T>
constexpr double ridge = sizeof(T) == 4 ? 1e-7 : 1e-14;
constexpr double ridge_growth = 100.0;
constexpr int ridge_attempts = 3;
// The ridge, times the number of variables, in float64 where a variable has no bound: rounding makes the Hessian indefinite by
// about one unit in the last place for each variable, and there nothing ends a step along a direction of no curvature.
constexpr double ridge_without_bounds = 16.0 * std::numeric_limits<double>::epsilon();

}  // namespace maxmargin::MAXMARGIN_LEVEL
