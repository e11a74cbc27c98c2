"""The words that parameters take, for type checkers and editors. `tests/test_small_print.py` compares them with what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from maxmargin.formulations import Loss
from maxmargin.kernels import Kernel

KernelName = Literal["linear", "poly", "rbf", "laplacian", "exponential", "sigmoid", "matern32", "precomputed"]
ClassLossName = Literal["hinge", "squared_hinge", "huber_hinge"]
RegressionLossName = Literal["epsilon_insensitive", "squared_epsilon_insensitive", "huber_epsilon_insensitive"]

#: Kernels and losses of the user have names of their own, hence `str`.
AnyKernel = KernelName | str | Kernel | Callable[..., Any]
ClassLoss = ClassLossName | str | Loss
RegressionLoss = RegressionLossName | str | Loss
Gamma = float | Literal["scale", "auto"]
CacheSize = float | Literal["auto"]
ClassWeight = Mapping[Any, float] | Literal["balanced"] | None

ApproximationName = Literal["nystroem"] | None
BackendName = Literal["auto", "native", "reference", "cuda", "cuda:all"]
SolverName = Literal[
    "auto", "block-smo", "smo-simple", "smo-all-pairs", "smo-platt", "dual-ascent", "qp", "subgradient", "lbfgs", "linear"
]
FastSolverName = Literal["auto", "block-smo"]
RegressionSolverName = Literal["auto", "block-smo", "linear"]
LinearSolverName = Literal["auto", "newton", "descent"]
RidgeSolverName = Literal["auto", "cholesky", "cg", "sgd"]
Strategy = Literal["ovo", "ovr", "crammer_singer"]
DecisionShape = Literal["ovo", "ovr"]
Probability = bool | Literal["loo", "cv"]
CalibrationName = Literal["sigmoid", "isotonic"]
