// Crammer and Singer's linear machine of all classes: descent over the dual, sample by sample (Keerthi et al. 2008).
//
//     min  1/2 sum_m |w_m|^2 + (1/2 sum_m b_m^2 if the bias is regularised) + sum_i C_i max_m (G_mi - G_{y_i, i})
//          G_mi = [m != y_i] + w_m.x_i + c b_m
//     max  sum_i (C_i - S_{y_i, i}) - 1/2 sum_m |sum_i B_mi (x_i, c)|^2,      B_mi = C_i [m = y_i] - S_mi
//     s.t. S >= 0,  sum_m S_mi = C_i,   and  sum_i B_mi = 0 for each class m  if the bias is free (then c is no part of the
//     square)
//
// S_mi is the *share* of class m in the cost of sample i, and the gap at w_m = sum_i B_mi x_i is
//
//     sum_i sum_m S_mi (max_l G_li - G_mi).
//
// A step moves the shares of one sample to their best values, given the weights: with A = |x_i|^2 (+ c^2) these minimise
// A/2 |S' - S|^2 - G_i.(S' - S) over the simplex of size C_i, so they are the projection of S + G_i / A onto it. One product of a
// row with the weights of all classes, and one row added to the weights of the classes whose shares moved.
//
// Classes that have no share in a sample and a score below all that have one are left out of its steps, and samples of which one
// class remains are left out too (shrinking). A free bias is the multiplier of sum_i B_mi = 0, as in linear_descent.hpp. One
// thread.
#pragma once
#include <memory>

#include "maxmargin/linear_problem.hpp"
#include "maxmargin/samples.hpp"

namespace maxmargin {

struct JointLinearProblem {
    const std::int32_t* labels;  // y_i
    const double* costs;         // C_i
    std::int64_t n_samples;
    int n_classes;
    Bias bias;
    double constant;  // c
    bool has_bias() const { return bias != Bias::none; }
};

// `shares` (a row for each sample, a column for each class) is where the method starts; `weights` (a row for each feature, then
// one for the bias if there is one; a column for each class) are set to those that belong to it.
template <class View>
std::unique_ptr<LinearSolver> joint_solver(const View& X, const JointLinearProblem& problem, double* shares, double* weights);

}  // namespace maxmargin
