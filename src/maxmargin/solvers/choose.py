"""Choose the solver: the one that was asked for, if it can be used, or the one that suits the problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from maxmargin.kernels import Kernel
from maxmargin.primal_or_dual import cheaper
from maxmargin.solution import Solution
from maxmargin.solvers import block_smo, lbfgs
from maxmargin.solvers.linear import kernel_machine
from maxmargin.solvers.options import SolverOptions
from maxmargin.solvers.textbook import dual_ascent, qp, smo_all_pairs, smo_platt, smo_simple, subgradient

HARD_MARGIN = "hard margin"
LOSSES = ("hinge", "squared_hinge", HARD_MARGIN)
#: The losses of linear machines.
LINEAR_LOSSES = ("hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive")
#: Up to this many samples the fast solver of the dual solves a machine in one tile, exactly up to rounding.
ONE_TILE = 1024
#: Largest number of samples for solvers that store the whole kernel matrix in float64: 800 MB.
WHOLE_MATRIX = 10_000


@dataclass(frozen=True)
class Solver:
    """A solver and its requirements, as data: its options; whether it moves pairs of duals and so needs the equality constraint
    of an intercept; whether it needs a problem without that constraint, so that its intercept is a weight and its kernel K + 1;
    whether its steps depend on the order of the samples, so that it must see them in the user's order; whether it solves the
    primal problem and so needs the features of the kernel; the losses (None: all) and number of samples that it can handle."""

    solve: Callable[..., Solution]
    options: type[SolverOptions] = SolverOptions
    moves_pairs: bool = False
    augments_kernel: bool = False
    goes_by_order: bool = False
    primal: bool = False
    losses: tuple[str, ...] | None = LOSSES
    largest: int | None = None

    @property
    def takes_options(self) -> bool:
        return self.options is not SolverOptions

    def obstacle(self, situation: Situation) -> str | None:
        """The reason why this solver cannot be used here; None if it can."""
        if self.primal and not situation.kernel.explicit:
            name = situation.kernel.name
            return f"it solves the primal problem, for which the {name} kernel has no features (kernel='linear' has)"
        if self.losses is not None and situation.loss not in self.losses:
            return f"it does not take the {situation.loss}" + (" (C=inf)" if situation.loss == HARD_MARGIN else " loss")
        if self.moves_pairs and not situation.intercept:
            return "it moves pairs of duals, for which there must be an intercept"
        if self.largest is not None and situation.n_samples > self.largest:
            return f"it keeps the whole kernel matrix, so {situation.n_samples} samples are too many (at most {self.largest})"
        return None


SOLVERS: Mapping[str, Solver] = {
    "block-smo": Solver(block_smo.solve, losses=None),
    "smo-simple": Solver(smo_simple.solve, smo_simple.Options, moves_pairs=True, goes_by_order=True, largest=WHOLE_MATRIX),
    "smo-all-pairs": Solver(smo_all_pairs.solve, moves_pairs=True, goes_by_order=True, largest=WHOLE_MATRIX),
    "smo-platt": Solver(smo_platt.solve, smo_platt.Options, moves_pairs=True, goes_by_order=True, largest=WHOLE_MATRIX),
    "dual-ascent": Solver(dual_ascent.solve, dual_ascent.Options, augments_kernel=True, goes_by_order=True, largest=WHOLE_MATRIX),
    "qp": Solver(qp.solve, qp.Options, largest=WHOLE_MATRIX),
    "subgradient": Solver(subgradient.solve, subgradient.Options, goes_by_order=True, primal=True, losses=("hinge", HARD_MARGIN)),
    "lbfgs": Solver(lbfgs.solve, lbfgs.Options, primal=True),
    "linear": Solver(kernel_machine.solve, primal=True, losses=LINEAR_LOSSES),
}


class Situation(NamedTuple):
    """The problem that a solver is chosen for: its kernel, the name of its loss, the samples of the largest machine, whether pair
    steps are limited, and whether compiled code may run."""

    kernel: Kernel
    loss: str
    intercept: bool
    n_samples: int
    n_features: int
    limits_steps: bool = False
    compiled: bool = True

    @property
    def feature_dimension(self) -> float:
        """F, the number of features of the kernel's feature map."""
        return self.kernel.feature_dimension(self.n_features)


class Choice(NamedTuple):
    """The solver that runs, and why; whether it hands over to the fast solver if it falls short of the tolerance; whether the
    solvers of linear machines are tried where it stalls; whether the kernel is K + 1, for an intercept that is a weight;
    whether the fast solver continues if the certificate contradicts the claim to have converged (a textbook solver that was asked
    for ends as its textbook says); and whether the solver sees the samples in the user's order."""

    name: str
    reason: str
    hands_over: bool = False
    tries_linear: bool = False
    augments_kernel: bool = False
    continues: bool = False
    goes_by_order: bool = False


def choose_solver(name: str, situation: Situation) -> Choice:
    """The solver with this name, if it can be used. 'auto' is that of linear machines for a linear kernel and many samples; for
    few, L-BFGS if the primal is the better problem and smooth; else the fast solver of the dual."""
    if name == "auto":
        return _automatic(situation)
    require_known(name)
    obstacle = SOLVERS[name].obstacle(situation)
    if obstacle is not None:
        others = [other for other, solver in SOLVERS.items() if solver.obstacle(situation) is None]
        raise ValueError(f"solver={name!r}: {obstacle}. Here you can use {', '.join(others)}")
    solver = SOLVERS[name]
    return Choice(
        name,
        f"{name}, as asked",
        augments_kernel=solver.augments_kernel and situation.intercept,
        continues=name in ("block-smo", "linear"),
        goes_by_order=solver.goes_by_order,
    )


def require_known(name: str, known: Mapping[str, Solver] = SOLVERS) -> None:
    if name != "auto" and name not in known:
        raise ValueError(f"solver={name!r}: must be 'auto' or one of {', '.join(known)}")


def _automatic(situation: Situation) -> Choice:
    linear = situation.compiled and not situation.limits_steps and SOLVERS["linear"].obstacle(situation) is None
    if linear and situation.n_samples > ONE_TILE:
        n, F = situation.n_samples, situation.feature_dimension
        reason = (
            f"linear, the solvers of linear machines: {n} samples of {F:.4g} features are read some tens of times, and no kernel "
            "entry is computed; block-smo goes on where they fall short of tol"
        )
        return Choice("linear", reason, hands_over=True, continues=True)
    formulation, why = cheaper(situation.n_samples, situation.n_features, situation.feature_dimension)
    stalled = " Where it stalls, the solvers of linear machines are tried." if linear else ""
    if formulation == "dual":
        return Choice("block-smo", f"block-smo, a solver of the dual. {why}{stalled}", tries_linear=linear, continues=True)
    obstacle = SOLVERS["lbfgs"].obstacle(situation)
    if obstacle is None and situation.loss == "hinge":
        obstacle = "the hinge has a kink, at which it is slow"
    if obstacle is None and situation.loss == HARD_MARGIN:
        obstacle = "with a hard margin it separates the classes, but not by the widest margin"
    if obstacle is not None:
        reason = f"block-smo, a solver of the dual. Not lbfgs, a solver of the primal: {obstacle}.{stalled}"
        return Choice("block-smo", reason, tries_linear=linear, continues=True)
    reason = f"lbfgs, a solver of the primal; block-smo goes on where it falls short of tol. {why}"
    return Choice("lbfgs", reason, hands_over=True, continues=True)
