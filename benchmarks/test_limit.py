"""The routine of the limit computes the kernel matrix, each entry once, with every shape of a block and number of threads."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from benchmarks.limit import SHAPES, blocks, factors
from tests import oracle


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
def test_blocks_are_the_kernel_matrix(shape: tuple[int, int], threads: int, container: type) -> None:
    X = np.random.default_rng(0).normal(size=(shape[0] + 7, 5))
    support = np.random.default_rng(1).permutation(len(X))[: shape[1] + 3]
    A, B = factors(container(X), support, gamma=0.3)
    K = np.zeros((len(A), len(B)))
    for thread in range(threads):
        for row, column, block in blocks(A, B, shape, threads, thread):
            K[row : row + len(block), column : column + block.shape[1]] += block
    np.testing.assert_allclose(K, oracle.kernel_matrix("rbf", X, gamma=0.3)[:, support], rtol=2e-5, atol=1e-7)
