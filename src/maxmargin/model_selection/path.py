"""Machines along a path of C: each starts from the one before, and kernel machines share one kernel matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from maxmargin.certificates import Certificate
from maxmargin.estimators import SVC, SVR, LinearSVC, LinearSVR, NuSVR
from maxmargin.estimators.base import KernelMachine, fit_each
from maxmargin.estimators.linear import LinearMachine
from maxmargin.model_selection.axes import numbers


@dataclass(frozen=True)
class Path:
    """The machines of a path, in ascending order of C.

    Parameters
    ----------
    Cs : ndarray
        The values of C.
    machines : tuple
        The fitted machines.
    scores : ndarray
        Their scores on the validation set; without one, on the training set.
    validated : bool, default=False
        Whether there was a validation set.

    See Also
    --------
    C_path : Makes one.
    maxmargin.plots.PathDisplay : A picture of it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import C_path
    >>> path = C_path(*load_iris(return_X_y=True), [0.1, 1.0])
    >>> path.coefficients.shape, path.intercepts.shape, path.validated
    ((2, 2, 150), (2, 3), False)
    """

    Cs: NDArray[np.float64]
    machines: tuple[Any, ...]
    scores: NDArray[np.float64]
    validated: bool = False

    @property
    def certificates(self) -> list[Certificate]:
        return [machine.certificate_ for machine in self.machines]

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The signed dual coefficients: a row for each C and each row of `dual_coef_`, a column for each training sample. For
        linear machines, which keep no duals, the weights: a row for each C and each row of `coef_`, a column for each feature."""
        if isinstance(self.machines[0], LinearMachine):
            return np.stack([np.atleast_2d(machine.coef_) for machine in self.machines])
        n = self.machines[0].shape_fit_[0]
        rows = []
        for machine in self.machines:
            coefficients = machine.dual_coef_.toarray() if sp.issparse(machine.dual_coef_) else machine.dual_coef_
            full = np.zeros((len(coefficients), n))
            full[:, machine.support_] = coefficients
            rows.append(full)
        return np.stack(rows)

    @property
    def intercepts(self) -> NDArray[np.float64]:
        return np.stack([machine.intercept_ for machine in self.machines])

    def best(self) -> Any:
        """The machine with the highest score; of several, the one with the smallest C. Without a validation set it is the score
        on the training set, which says little.
        """
        return self.machines[int(np.argmax(self.scores))]


def C_path(
    X: ArrayLike,
    y: ArrayLike,
    Cs: Sequence[float],
    *,
    estimator: SVC | SVR | NuSVR | LinearSVC | LinearSVR | None = None,
    sample_weight: ArrayLike | None = None,
    validation_set: tuple[ArrayLike, ArrayLike] | None = None,
) -> Path:
    """Fit a machine for each value of C, ascending, each from the solution before it.

    One kernel matrix, with its cache, serves all kernel machines. Ctrl-C ends the path and is raised, as in ``fit``.

    Parameters
    ----------
    X, y : array-like
        The training data.
    Cs : sequence of float
        The values of C.
    estimator : SVC, SVR, NuSVR, LinearSVC or LinearSVR, default=None
        The machine with its other parameters; None is ``SVC()``.
    sample_weight : array-like, default=None
        The weights of the samples.
    validation_set : tuple of X and y, default=None
        Samples on which the machines are scored; None is the training set.

    Returns
    -------
    Path
        The fitted machines and their scores.

    See Also
    --------
    SVCCV, LinearSVCCV : C chosen by cross-validation.
    maxmargin.plots.PathDisplay : A picture of the path.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import C_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = C_path(X[::2], y[::2], [0.1, 1.0, 10.0], validation_set=(X[1::2], y[1::2]))
    >>> path.best() in path.machines
    True
    """
    values = sorted(numbers("Cs", Cs, or_else=", for example numpy.logspace(-2, 3, 20)"))
    machine = clone(SVC() if estimator is None else estimator)
    if not isinstance(machine, KernelMachine | LinearMachine) or not hasattr(machine, "C"):
        raise TypeError(f"estimator={estimator!r}: must be a machine of maxmargin that has a C, such as SVC or SVR")
    machine.set_params(warm_start=True)
    machines = fit_each(machine, [{"C": C} for C in values], X, y, sample_weight)
    test_X, test_y = (X, y) if validation_set is None else validation_set
    scores = np.array([one.score(test_X, test_y) for one in machines])
    return Path(np.array(values), tuple(machines), scores, validated=validation_set is not None)
