// Which instruction-set level runs: here the tests choose it, one after the other, where the library takes the highest.
#pragma once

namespace tests {

int n_levels();  // that this processor has
void use_level(int level);
const char* level_name();

}  // namespace tests
