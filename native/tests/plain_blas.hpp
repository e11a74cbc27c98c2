// The four routines that the library borrows from BLAS and LAPACK, as the plain loops that define them.
#pragma once

namespace tests {

void use_plain_blas();

}  // namespace tests
