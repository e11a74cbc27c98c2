"""The routine of the limit computes the kernel matrix, each entry once, whatever the number of threads."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from benchmarks.limit import COLUMNS, ROWS, blocks, factors
from tests import oracle


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
def test_blocks_are_the_kernel_matrix(threads: int, container: type) -> None:
    X = np.random.default_rng(0).normal(size=(2 * ROWS + 7, 5))
    support = np.random.default_rng(1).permutation(len(X))[: COLUMNS + 3]
    A, B = factors(container(X), support, gamma=0.3)
    K = np.zeros((len(A), len(B)))
    for thread in range(threads):
        for row, column, block in blocks(A, B, thread, threads):
            K[row : row + len(block), column : column + block.shape[1]] += block
    np.testing.assert_allclose(K, oracle.kernel_matrix("rbf", X, gamma=0.3)[:, support], rtol=2e-5, atol=1e-7)
