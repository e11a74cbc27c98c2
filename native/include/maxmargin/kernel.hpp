// What k(x, z) is: a name and at most three numbers.
#pragma once

namespace maxmargin {

// The last two are no kernels, but what kernels are functions of, as `linear` is too.
enum class KernelKind { linear, polynomial, rbf, laplacian, exponential, sigmoid, squared_distance, manhattan_distance };

// What a kernel needs to know of two samples before its scalar function is applied.
enum class Pairing { dot, squared_distance, manhattan_distance };

struct Kernel {
    KernelKind kind = KernelKind::linear;
    double gamma = 1.0;
    double coef0 = 0.0;
    double degree = 3.0;

    Pairing pairing() const {
        switch (kind) {
            case KernelKind::squared_distance:
            case KernelKind::rbf:
            case KernelKind::exponential: return Pairing::squared_distance;
            case KernelKind::manhattan_distance:
            case KernelKind::laplacian: return Pairing::manhattan_distance;
            default: return Pairing::dot;
        }
    }
    // The pairing itself.
    Kernel bare() const {
        switch (pairing()) {
            case Pairing::squared_distance: return {KernelKind::squared_distance};
            case Pairing::manhattan_distance: return {KernelKind::manhattan_distance};
            default: return {KernelKind::linear};
        }
    }
    // k(x + c, z + c) = k(x, z): the samples may be centred, which shrinks rounding errors.
    bool shift_invariant() const { return pairing() != Pairing::dot; }
};

}  // namespace maxmargin
