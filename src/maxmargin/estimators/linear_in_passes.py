"""The fit of linear machines to rows that are seen in parts: a survey, then passes until the certificate is good enough.

Each pass does two things with a part (`visit`): it adds the part to the certificate of the point of the pass before, and lets the
solver work on it. The parts are chunks that are read here one after the other (`PartsHere`), or partitions on the workers of a
cluster (`linear_on_cluster`).

So after each pass there is a model with a certificate. It is the model that is kept when the pass after it does not come to its
end: the source fails, the time is up, or the user presses Ctrl-C.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.backends.linear import Rows
from maxmargin.certificates import Certificate
from maxmargin.control import Control, Stop, fraction_done
from maxmargin.estimators import validation
from maxmargin.estimators.checkpoint import Checkpoint
from maxmargin.estimators.chunks import Chunk, ChunkedRows
from maxmargin.estimators.linear_training import LEAST_GAP, LinearMachineResult, train_linear
from maxmargin.formulations import (
    BalanceInParts,
    LinearProblem,
    LinearTotals,
    Repair,
    linear_classification,
    linear_one_class,
    linear_regression,
)
from maxmargin.linear_certificates import EvidenceInParts, certify_linear
from maxmargin.solution import Status, Trace
from maxmargin.solvers.linear.choose import FEW_COLUMNS
from maxmargin.solvers.linear.in_passes import (
    Changes,
    DescentInPasses,
    DescentStep,
    MachineInPasses,
    NewtonInPasses,
    NewtonStep,
    NewtonSums,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BYTES_OF_SAMPLE = 64_000_000  # of the rows that Newton's method starts from
GAP_OF_SAMPLE = 1e-2
IN_PASSES = 1 << 62  # entries, as a backend counts work: always worth its threads
CLAIM_SHARE = 0.9  # a claimed gap of this share of gap_tol is worth a pass for the certificate alone


class Task(ABC):
    """What is learnt from chunks: `survey` sees each chunk once, then `settle` makes the totals, and `problems` can be asked."""

    totals: ClassVar[tuple[str, ...]] = ()  # names of further sums over the samples
    n_samples = 0
    n_features = 0
    squares = 0.0  # sum of |x|^2, and of the same by weight
    weighted_squares = 0.0
    weight = 0.0

    def see(self, chunk: Chunk) -> None:
        squares = _squares(chunk.X)
        self.n_samples += len(squares)
        self.n_features = max(self.n_features, chunk.X.shape[1])
        self.squares += float(squares.sum())
        self.weighted_squares += float(chunk.weights @ squares)
        self.weight += float(chunk.weights.sum())
        self.survey(chunk)

    def add(self, other: Task) -> None:
        """Add what another task of the same kind has seen."""
        self.n_features = max(self.n_features, other.n_features)
        for name in ("n_samples", "squares", "weighted_squares", "weight", *self.totals):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @abstractmethod
    def survey(self, chunk: Chunk) -> None: ...

    @abstractmethod
    def settle(self) -> list[LinearTotals]:
        """The totals of each machine, after the survey."""

    @abstractmethod
    def problems(self, chunk: Chunk, factor: float = 1.0) -> list[LinearProblem]:
        """The problem of each machine over the rows of a chunk; costs are multiplied by `factor`."""


@dataclass
class Classification(Task):
    C: float
    loss: str
    bias: str
    constant: float
    class_weight: Any

    def __post_init__(self) -> None:
        self._weights: dict[Any, float] = {}

    def survey(self, chunk: Chunk) -> None:
        assert chunk.y is not None
        if chunk.y.dtype.kind == "f" and not np.isfinite(chunk.y).all():
            raise ValueError(f"Input y contains NaN or infinity, in the chunk {_rows_of(chunk)}")
        classes, labels = np.unique(chunk.y, return_inverse=True)
        totals = np.bincount(labels, weights=chunk.weights, minlength=len(classes))
        self._count(zip(classes.tolist(), totals.tolist(), strict=True))

    def add(self, other: Task) -> None:
        assert isinstance(other, Classification)
        super().add(other)
        self._count(other._weights.items())

    def _count(self, weights: Iterable[tuple[Any, float]]) -> None:
        for label, weight in weights:
            self._weights[label] = self._weights.get(label, 0.0) + weight

    def settle(self) -> list[LinearTotals]:
        self.classes, order = validation.classes_and_labels(np.array(list(self._weights)))
        weights = np.zeros(len(self.classes))
        weights[order] = list(self._weights.values())
        self.weights_of_classes = validation.class_weights(self.class_weight, self.classes, np.arange(len(self.classes)), weights)
        costs = self.C * weights * self.weights_of_classes
        validation.require_two_classes(np.arange(len(costs)), costs)
        cost = float(costs.sum())
        n_machines = 1 if len(self.classes) == 2 else len(self.classes)
        squared, square = self.loss == "squared_hinge", self.squares / self.n_samples
        return [LinearTotals(self.n_samples, cost, 1.0, square, cost, squared, self.bias, self.constant)] * n_machines

    def problems(self, chunk: Chunk, factor: float = 1.0) -> list[LinearProblem]:
        assert chunk.y is not None
        labels = np.minimum(np.searchsorted(self.classes, chunk.y), len(self.classes) - 1)
        if not (self.classes[labels] == chunk.y).all():
            raise ValueError(f"X: the chunk {_rows_of(chunk)} has a class that was not there in the first pass")
        costs = factor * self.C * chunk.weights * self.weights_of_classes[labels]
        positives = [1] if len(self.classes) == 2 else range(len(self.classes))
        sides = (np.where(labels == positive, 1.0, -1.0) for positive in positives)
        return [linear_classification(side, costs, self.loss, self.bias, self.constant) for side in sides]


@dataclass
class Regression(Task):
    C: float
    epsilon: float
    loss: str
    bias: str
    constant: float
    resolution: Any  # an object with the tol that an error about enormous targets names

    totals = ("size", "value_of_zero")
    size = 0.0
    value_of_zero = 0.0

    def survey(self, chunk: Chunk) -> None:
        assert chunk.y is not None
        if chunk.y.dtype.kind not in "biuf":
            raise ValueError(f"y has dtype {chunk.y.dtype}: the targets of a regression must be numbers")
        (problem,) = self.problems(chunk)
        self.size += float(np.abs(problem.reach * problem.targets).sum())
        self.value_of_zero += problem.value_of_zero

    def settle(self) -> list[LinearTotals]:
        validation.require_weight(np.array([self.weight]))
        cost, squared = self.C * self.weight, self.loss == "squared_epsilon_insensitive"
        scale, square = self.size / cost or 1.0, self.squares / self.n_samples
        return [LinearTotals(self.n_samples, cost, scale, square, self.value_of_zero, squared, self.bias, self.constant)]

    def problems(self, chunk: Chunk, factor: float = 1.0) -> list[LinearProblem]:
        assert chunk.y is not None
        targets = validation.finite_targets(self.resolution, chunk.y)
        costs = factor * self.C * chunk.weights
        return [linear_regression(targets, costs, self.epsilon, self.loss, self.bias, self.constant)]


@dataclass
class OneClass(Task):
    nu: float

    def survey(self, chunk: Chunk) -> None:
        pass

    def settle(self) -> list[LinearTotals]:
        validation.require_weight(np.array([self.weight]))
        total, square = self.nu * self.weight, self.squares / self.n_samples
        scale = total * self.weighted_squares / self.weight or 1.0  # of scores, if all duals have the same share of the total
        return [LinearTotals(self.n_samples, self.weight, scale, square, 0.0, False, "free", total=total)]

    def problems(self, chunk: Chunk, factor: float = 1.0) -> list[LinearProblem]:
        return [replace(linear_one_class(factor * chunk.weights, self.nu), total=self.nu * self.weight)]


class SampleOfRows:
    """Every k-th row, k a power of two, as many as fit into a budget of bytes."""

    def __init__(self, budget: int = BYTES_OF_SAMPLE, stride: int = 1) -> None:
        self.chunks: list[Chunk] = []
        self._budget, self._stride = budget, stride

    def see(self, chunk: Chunk) -> None:
        self.chunks.append(self._thinned(chunk))
        while sum(_n_bytes(own.X) for own in self.chunks) > self._budget:
            self._stride *= 2
            self.chunks = [self._thinned(own, 2) for own in self.chunks]

    def add(self, other: SampleOfRows) -> None:
        """Add the sample of other rows."""
        self.chunks += other.chunks

    def _thinned(self, chunk: Chunk, stride: int | None = None) -> Chunk:
        """Every k-th row of a chunk, without their numbers."""
        step = slice(None, None, stride or self._stride)
        X = chunk.X[step].copy() if sp.issparse(chunk.X) else np.array(chunk.X[step])
        return Chunk(X, None if chunk.y is None else chunk.y[step].copy(), chunk.weights[step].copy(), slice(0))

    def whole(self, n_features: int) -> Chunk:
        rows = [own.X for own in self.chunks]
        if any(sp.issparse(own) for own in rows):
            rows = [sp.csr_array(own) for own in rows]
            rows = [sp.csr_array((own.data, own.indices, own.indptr), shape=(own.shape[0], n_features)) for own in rows]
            X: Any = validation.canonical(sp.vstack(rows, format="csr"))
        else:
            X = np.concatenate(rows)
        targets = [own.y for own in self.chunks if own.y is not None]
        return Chunk(
            X, np.concatenate(targets) if targets else None, np.concatenate([own.weights for own in self.chunks]), slice(0)
        )


@dataclass(frozen=True)
class Outcome:
    """The machines of the last whole pass; the error that ended the reading before its end, if one did."""

    totals: list[LinearTotals]
    results: list[LinearMachineResult]
    solver: str
    reason: str
    failure: Exception | None


def choose_solver_in_passes(name: str, n_features: int) -> tuple[str, str]:
    """The solver, and why."""
    few = n_features <= FEW_COLUMNS
    if name == "newton" and not few:
        raise ValueError(
            f"solver='newton' with {n_features} columns: for rows that are read in chunks it takes at most {FEW_COLUMNS}; use "
            "solver='auto'"
        )
    if name == "auto":
        why = (
            f"{n_features} columns are few, and a step costs one pass over the rows" if few else f"{n_features} columns are many"
        )
        name = "newton" if few else "descent"
        return name, f"{name}, on rows that are read in chunks: {why}"
    return name, f"{name}, as asked, on rows that are read in chunks"


class Plan(NamedTuple):
    """What a pass does with the rows of a part for one machine: it certifies the weights, and the duals after their repair; then
    it takes a step, if there is one."""

    weights: Vector
    repair: Repair
    step: NewtonStep | DescentStep | None

    @classmethod
    def of(cls, machine: MachineInPasses, works: bool) -> Plan:
        return cls(machine.weights, machine.repair, machine.step if works else None)


class Found(NamedTuple):
    """What a pass finds in some rows for one machine: sums over the rows."""

    evidence: EvidenceInParts
    step: NewtonSums | Changes | None
    balance: BalanceInParts | None  # of the duals after the step, if the bias is free

    def plus(self, other: Found) -> Found:
        pairs: Any = zip(self, other, strict=True)
        sums: Any = [None if a is None or b is None else a.plus(b) for a, b in pairs]
        return Found(*sums)


class Visit(NamedTuple):
    """What a pass finds in some rows, and leaves of them; an entry for each machine."""

    found: list[Found]
    terms: list[Vector]  # shares of the samples in the gap
    kept: list[Matrix]  # the numbers that the next pass needs: a column for each sample, its dual first


def visit(chunk: Chunk, task: Task, plans: Sequence[Plan], kept: Sequence[Matrix]) -> Visit:
    """The part of some rows in a pass."""
    rows, result = Rows(chunk.X), Visit([], [], [])
    for plan, problem, own in zip(plans, task.problems(chunk), kept, strict=True):
        duals = np.ascontiguousarray(plan.repair.of(problem, own[0]))
        sums, terms, products, error = rows.evidence(problem, plan.weights, duals)
        step, after = (None, own) if plan.step is None else plan.step(chunk.X, problem, own)
        balance = BalanceInParts.of(problem, after[0]) if step is not None and problem.bias == "free" else None
        result.found.append(Found(EvidenceInParts.of(sums, products, error), step, balance))
        result.terms.append(terms)
        result.kept.append(after)
    return result


class Parts(ABC):
    """The rows of a training set in parts, and beside them what machines keep of each row; `kept`, if that is here."""

    kept: list[Matrix]

    @abstractmethod
    def survey(self, task: Task) -> SampleOfRows:
        """Show the task all rows; return some of them."""

    @abstractmethod
    def begin(self, machines: Sequence[MachineInPasses], task: Task) -> None:
        """Prepare for the passes of these machines."""

    @abstractmethod
    def pass_over(self, task: Task, busy: Sequence[bool], control: Control, number: int) -> tuple[list[Found], Status | None]:
        """Visit all rows once; machines that are busy take their steps. If the fit has to end, they stop, and the evidence is
        still completed. Return the sums over all rows, and the reason to end."""

    @abstractmethod
    def terms(self) -> list[Vector]:
        """The shares of the samples in the gaps, as the last whole pass has found them; empty if they are lost."""


class PartsHere(Parts):
    """Chunks that are read one after the other."""

    def __init__(self, rows: ChunkedRows) -> None:
        self._rows = rows

    def survey(self, task: Task) -> SampleOfRows:
        sample = SampleOfRows()
        for chunk in self._rows():
            task.see(chunk)
            sample.see(chunk)
        self._rows.n_features = task.n_features
        return sample

    def begin(self, machines: Sequence[MachineInPasses], task: Task) -> None:
        self._machines = machines
        self.kept = [np.zeros((machine.n_kept, task.n_samples)) for machine in machines]

    def pass_over(self, task: Task, busy: Sequence[bool], control: Control, number: int) -> tuple[list[Found], Status | None]:
        totals: list[Found] | None = None
        terms = [np.empty(task.n_samples) for _ in self._machines]
        ended, n_read = None, 0
        random = np.random.default_rng(number) if self._machines[0].shuffles else None
        for chunk in self._rows(random):
            at, n_read = chunk.at, n_read + chunk.X.shape[0]
            if n_read > task.n_samples:
                break
            plans = [Plan.of(machine, works and ended is None) for machine, works in zip(self._machines, busy, strict=True)]
            visited = visit(chunk, task, plans, [own[:, at] for own in self.kept])
            for k, (machine, one) in enumerate(zip(self._machines, visited.found, strict=True)):
                terms[k][at], self.kept[k][:, at] = visited.terms[k], visited.kept[k]
                if one.step is not None:
                    machine.take(one.step)
            found = [one._replace(step=None) for one in visited.found]
            totals = found if totals is None else list(map(Found.plus, totals, found))
            ended = ended or control.ended()
        if totals is None or n_read != task.n_samples:
            what = "more rows" if n_read > task.n_samples else f"{n_read} rows, fewer"
            raise ValueError(
                f"X: a pass gave {what} than the first, which gave {task.n_samples}: each pass must give the same rows"
            )
        self._terms = terms
        return totals, ended

    def terms(self) -> list[Vector]:
        return self._terms


class Fit:
    """One fit in passes."""

    def __init__(self, parts: Parts, task: Task, stop: Stop, control: Control, max_passes: int) -> None:
        self._parts, self._task, self._stop, self._control, self._max_passes = parts, task, stop, control, max_passes
        self._passes = 0

    def run(self, asked: str, checkpoint: Any, identity: dict[str, Any]) -> Outcome:
        task = self._task
        sample = self._parts.survey(task)
        if not task.n_samples:
            raise ValueError("X: the rows that are read in chunks are none; at least one is required")
        totals = task.settle()
        name, reason = choose_solver_in_passes(asked, task.n_features)
        machines: list[MachineInPasses]
        if name == "newton":
            machines = self._newton(totals, sample.whole(task.n_features))
        else:
            machines = [DescentInPasses(whole, task.n_features) for whole in totals]
        del sample
        self._parts.begin(machines, task)
        file = None
        if checkpoint is not None:
            seen = {"n_samples": task.n_samples, "n_features": task.n_features, "weight": task.weight, "squares": task.squares}
            file = Checkpoint(checkpoint, {**identity, **seen, "solver": name})
            self._restore(file, machines)
        results, failure = self._passes_over(machines, file)
        return Outcome(totals, results, name, reason, failure)

    def _newton(self, totals: Sequence[LinearTotals], sample: Chunk) -> list[MachineInPasses]:
        """Machines that start from the solution for some of the rows."""
        n = sample.X.shape[0]
        with suppress(ValueError):  # the rows have one class only, or no weight
            problems = self._task.problems(sample, self._task.weight / max(float(sample.weights.sum()), 1e-300))
            own = Control()
            starts = train_linear("newton", problems, Rows(sample.X), Stop(math.inf, GAP_OF_SAMPLE), own, 100)
            spread = math.sqrt((self._task.n_features + 1) / n)
            if all(start.status.converged for start in starts):  # a start that is far off costs more passes than none
                return [
                    NewtonInPasses(whole, self._task.n_features, start.weights, spread)
                    for whole, start in zip(totals, starts, strict=True)
                ]
        return [NewtonInPasses(whole, self._task.n_features) for whole in totals]

    # --- the passes -----------------------------------------------------------------------------------------------

    def _passes_over(
        self, machines: Sequence[MachineInPasses], file: Checkpoint | None
    ) -> tuple[list[LinearMachineResult], Exception | None]:
        stop, control, trace = self._stop, self._control, Trace()
        gap_tol = stop.gap_tol if stop.gap_tol is not None else min(1e-3, stop.tol)
        targets = [CLAIM_SHARE * gap_tol] * len(machines)
        weights: list[Vector] = []
        proofs: list[Certificate] = []
        failure = status = None
        while status is None:
            busy = [machine.claimed > target for machine, target in zip(machines, targets, strict=True)]
            shown = [machine.weights for machine in machines]
            try:
                found, ended = self._parts.pass_over(self._task, busy, control, self._passes)
            except Exception as error:
                if not proofs:
                    raise
                failure, status = error, Status.SOURCE_FAILED
                break
            self._passes += 1
            weights = shown
            proofs = [
                certify_linear(machine.whole, own, one.evidence.whole())
                for machine, own, one in zip(machines, weights, found, strict=True)
            ]
            met = [proof.meets(stop.tol, stop.gap_tol) for proof in proofs]
            for k, (machine, proof) in enumerate(zip(machines, proofs, strict=True)):
                if met[k]:
                    targets[k] = max(targets[k], machine.claimed)
                elif not busy[k]:  # the claim was wrong
                    targets[k] = min(0.3 * targets[k], targets[k] * 0.5 * gap_tol / max(proof.relative_gap, gap_tol))
            worst = max(proofs, key=lambda proof: proof.relative_gap)
            trace.append(
                control.seconds, self._passes, worst.kkt_violation, sum(p.dual for p in proofs), sum(p.gap for p in proofs)
            )
            fraction = fraction_done(stop, 1.0, worst.kkt_violation, worst.relative_gap)
            stopped = control.report(self._passes, worst.kkt_violation, worst.relative_gap, fraction)
            if all(met):
                status = Status.CONVERGED if math.isfinite(stop.tol) else Status.GAP_REACHED
            elif min(targets) < LEAST_GAP:
                status = Status.STALLED
            else:
                status = ended or stopped or (Status.MAX_ITER if 0 <= self._max_passes <= self._passes else None)
            if ended is None:
                for machine, worked, one in zip(machines, busy, found, strict=True):
                    if worked:
                        machine.end_pass(one.balance)
                if file is not None:
                    self._write(file, machines)
        results = [
            LinearMachineResult(
                np.zeros(0), own, replace(proof, gap_terms=terms), status, self._passes, self._passes + 1.0, trace
            )
            for own, proof, terms in zip(weights, proofs, self._parts.terms(), strict=True)
        ]
        return results, failure

    # --- the checkpoint -------------------------------------------------------------------------------------------

    def _write(self, file: Checkpoint, machines: Sequence[MachineInPasses]) -> None:
        state = {f"{name}_{k}": value for k, machine in enumerate(machines) for name, value in machine.state().items()}
        kept = {f"kept_{k}": value for k, value in enumerate(self._parts.kept)}
        file.write({"passes": self._passes, **state, **kept})

    def _restore(self, file: Checkpoint, machines: Sequence[MachineInPasses]) -> None:
        state = file.read()
        if state is None:
            return
        self._passes = int(state["passes"])
        for k, machine in enumerate(machines):
            machine.restore({name.removesuffix(f"_{k}"): value for name, value in state.items() if name.endswith(f"_{k}")})
            self._parts.kept[k][:] = state[f"kept_{k}"]


def _rows_of(chunk: Chunk) -> str:
    return f"at row {chunk.at.start}" if isinstance(chunk.at, slice) else f"of rows {chunk.at[0]}, ..."


def _squares(X: Any) -> Vector:
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X), dtype=np.float64)


def _n_bytes(X: Any) -> int:
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) if sp.issparse(X) else int(X.nbytes)
