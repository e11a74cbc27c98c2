// Held-out chunks: the chunks of a tile in which no variable can move, such as the samples that a fold of cross-validation holds
// out.
//
//     min over beta   1/2 (beta - beta0)' K (beta - beta0) + G' (beta - beta0)
//     s.t.            beta_k = beta0_k for the variables k of held-out chunks, and the other constraints of the tile
//
// given the gradient G at beta0. The pair steps G += t (K_i - K_j) need the gradient only where a variable can move, so they skip
// the held-out chunks. At the end, what all of them did to the gradient there is added at once: G += sum_k u_k K_k, where u_k is
// the sum of the steps of variable k.
#pragma once
#include <cstddef>
#include <vector>

#include "maxmargin/tile_problem.hpp"
#include "pairings.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

template <class T>
class HeldOutChunks {
public:
    explicit HeldOutChunks(const TileProblem<T>& problem)
        : K(problem.K), held_out(in_chunks(K.size()) / chunk, 1), steps(K.size(), 0.0) {
        for (int k = 0; k < K.size(); ++k)
            if (problem.lower[k] < problem.upper[k]) held_out[k / chunk] = 0;
    }

    bool contains(int c) const { return held_out[c]; }

    void note_step(int k, double t) { steps[k] += t; }

    // Add the steps that were noted to the gradients of the held-out chunks.
    void catch_up(double* gradient) const {
        std::vector<const T*> rows;
        std::vector<double> weights;
        for (int first = 0, last; first < static_cast<int>(held_out.size()); first = last) {
            for (last = first + 1; last < static_cast<int>(held_out.size()) && held_out[last] == held_out[first];) ++last;
            if (!held_out[first]) continue;
            rows.clear(), weights.clear();
            for (int k = 0; k < K.size(); ++k)
                if (steps[k] != 0.0) rows.push_back(K.row(k) + first * chunk), weights.push_back(steps[k]);
            accumulate(rows.data(), static_cast<int>(rows.size()), (last - first) * chunk, weights.data(),
                       gradient + first * chunk);
        }
    }

private:
    const Tile<T>& K;
    std::vector<char> held_out;
    std::vector<double> steps;  // the sum of the steps of each variable
};

}  // namespace maxmargin::MAXMARGIN_LEVEL
