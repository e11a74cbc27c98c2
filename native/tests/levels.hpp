// Which instruction-set level runs: here the tests choose it, one after the other, where the library takes the highest.
#pragma once

namespace tests {

int n_levels();  // number of levels that this processor supports
void use_level(int level);
const char* level_name();

}  // namespace tests
