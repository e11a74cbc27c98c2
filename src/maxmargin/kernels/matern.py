"""The Matérn kernel of order 3/2: (1 + t) exp(-t) with t = sqrt(3) gamma |x - z|.

Its functions are once differentiable: smoother than those of the exponential kernel, less smooth than those of the Gaussian.

An error ds of the squared distance s moves t by 3 gamma^2 ds / (2 t), and the kernel, whose slope in t is -t exp(-t), by at most
1.5 gamma^2 ds: that of a Gaussian kernel with 1.5 gamma^2 in place of gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.kernels.base import Gamma
from maxmargin.kernels.radial import RadialKernel, relative_error_of_products
from maxmargin.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True)
class Matern32(RadialKernel):
    """The Matérn kernel of order 3/2, (1 + t) exp(-t) with t = sqrt(3) gamma |x - z|.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default=1.0
        The factor of the distance; the words are resolved on a training set, as in `maxmargin.SVC`.

    See Also
    --------
    RBF, Exponential : Smoother and less smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import Matern32
    >>> Matern32(gamma=0.5).block(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.7849]])
    """

    name: ClassVar[str] = "matern32"
    gamma: Gamma = 1.0

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        t = np.sqrt(3.0 * values) * self.gamma
        return np.asarray((1.0 + t) * np.exp(-t))

    def rounding_of_products(self, squared_norms: NDArray[np.float64], n_terms: int) -> NDArray[np.float64]:
        absolute = 3.0 * (n_terms + 3) * UNIT_ROUNDOFF * self.gamma**2 * squared_norms
        return np.asarray(np.minimum(absolute, 0.5 * relative_error_of_products(n_terms)))
