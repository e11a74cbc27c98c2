// What k(x, z) is: a name and at most three numbers.
#pragma once

namespace maxmargin {

enum class KernelKind { linear, polynomial, rbf, laplacian, exponential, sigmoid };

// What a kernel needs to know of two samples before its scalar function is applied.
enum class Pairing { dot, squared_distance, manhattan_distance };

struct Kernel {
    KernelKind kind = KernelKind::linear;
    double gamma = 1.0;
    double coef0 = 0.0;
    double degree = 3.0;

    Pairing pairing() const {
        switch (kind) {
            case KernelKind::rbf:
            case KernelKind::exponential: return Pairing::squared_distance;
            case KernelKind::laplacian: return Pairing::manhattan_distance;
            default: return Pairing::dot;
        }
    }
    // k(x + c, z + c) = k(x, z): the samples may be centred, which shrinks rounding errors.
    bool shift_invariant() const { return pairing() != Pairing::dot; }
};

}  // namespace maxmargin
