"""The training of linear machines: solve, prove, and go on where the proof contradicts the solver."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.linear import Columns, Rows, n_threads, use_threads
from maxmargin.certificates import Certificate
from maxmargin.control import Control, Stop
from maxmargin.formulations import JointLinearProblem, LinearProblem
from maxmargin.linear_certificates import Evidence, certify_joint, certify_l1, certify_linear
from maxmargin.solution import Status, Trace
from maxmargin.solvers.linear import SMALL_JOINT_SOLVER, LinearRun
from maxmargin.training import decide

Array = NDArray[np.float64]
Problem = LinearProblem | JointLinearProblem
Start = tuple[Array, Array]

LEAST_GAP = 1e-15  # relative: what no solver can promise
#: Machines of at most SMALL samples are solved up to rounding where Newton's method can: that costs next to nothing, and what is
#: equal in exact arithmetic (a weight of two, a sample twice) then is equal.
SMALL, EXACT_GAP, EXACT_ROUNDS = 1024, 1e-20, 100
#: A relative gap below ROUNDING_GAP that ROUNDS_TO_HALVE more rounds do not halve is rounding.
ROUNDING_GAP, ROUNDS_TO_HALVE = 1e-12, 5


@dataclass(frozen=True)
class LinearMachineResult:
    """A trained machine: duals, weights (features, then bias if there is one; of all classes, if it is one machine of them), its
    proof and its course."""

    beta: Array
    weights: Array
    proof: Certificate
    status: Status
    rounds: int
    passes: float
    trace: Trace


def train_linear(
    name: str,
    problems: Sequence[Problem],
    rows: Rows | Columns,
    stop: Stop,
    control: Control,
    max_rounds: int,
    starts: Sequence[Start] | None = None,
) -> list[LinearMachineResult]:
    """Train each machine with the solver `name`; several of them side by side, a thread for each."""
    control.n_machines = len(problems)
    together = min(n_threads(), len(problems))
    lock = threading.Lock()

    def train(index: int, own: Control) -> LinearMachineResult:
        with lock:
            control.begin_turn(index, together)
        start = None if starts is None else starts[index]
        run = LinearRun.begin(name, problems[index], rows, start)
        if name in ("newton", SMALL_JOINT_SOLVER) and rows.n_samples <= SMALL:
            solve_up_to_rounding(run, own, EXACT_ROUNDS if max_rounds < 0 else min(EXACT_ROUNDS, max_rounds))
        return prove(run, rows, stop, own, max_rounds)

    if together == 1:
        return [train(index, control) for index in range(len(problems))]
    with ThreadPoolExecutor(together, initializer=use_threads, initargs=(1,)) as pool:
        return list(pool.map(lambda index: train(index, control.share()), range(len(problems))))


def solve_up_to_rounding(run: LinearRun, control: Control, max_rounds: int) -> None:
    """Advance until only rounding is left of the gap, at most `max_rounds` rounds."""
    gap = np.inf
    while run.advance(EXACT_GAP, control, min(max_rounds, run.rounds + ROUNDS_TO_HALVE)).status is Status.MAX_ITER:
        last, gap = gap, run.trace.relative_gap()
        if run.rounds >= max_rounds or 0.5 * last < gap <= ROUNDING_GAP:
            return


def prove(run: LinearRun, rows: Rows | Columns, stop: Stop, control: Control, max_rounds: int) -> LinearMachineResult:
    """Advance until the certificate satisfies the stopping rule, or the run has to end."""
    gap_tol = target = stop.gap_tol if stop.gap_tol is not None else min(1e-3, stop.tol)
    while True:
        solution = run.advance(target, control, max_rounds)  # at once if the solver is there already
        with control.clock_stopped():
            proof = certify(run.problem, rows, solution.weights, solution.beta)
        status = solution.status
        ends = status is Status.STALLED or proof.meets(stop.tol, stop.gap_tol)
        if ends and proof.primal < 2.0 * proof.gap and 0.0 < run.problem.value_of_zero < proof.gap:
            return _at_zero(run, rows, stop, status)
        if proof.meets(stop.tol, stop.gap_tol):
            status = decide(status, proof, stop)
            break
        if not status.converged:
            break
        target = min(0.3 * target, target * 0.5 * gap_tol / max(proof.relative_gap, gap_tol))
        if target < LEAST_GAP:
            status = Status.STALLED
            break
        del solution, proof  # they hold vectors over the samples, and the next ones come
    return LinearMachineResult(solution.beta, solution.weights, proof, status, run.rounds, run.passes, run.trace)


def _at_zero(run: LinearRun, rows: Rows | Columns, stop: Stop, status: Status) -> LinearMachineResult:
    """The machine w = 0, for a run that rounding has led to a point whose gap is larger than the losses of w = 0."""
    beta, weights = run.problem.origin(rows.n_features)
    proof = certify(run.problem, rows, weights, beta)
    return LinearMachineResult(beta, weights, proof, decide(status, proof, stop), run.rounds, run.passes, run.trace)


def certify(problem: Problem, rows: Rows | Columns, weights: Array, beta: Array) -> Certificate:
    if isinstance(problem, JointLinearProblem):
        assert isinstance(rows, Rows)
        return certify_joint(problem, weights, beta, rows.parts())
    if isinstance(rows, Columns):
        scores, products = rows.scores(weights[: rows.n_features]), rows.products(beta)
        return certify_l1(problem, weights, beta, scores, products, rows.largest_sizes())
    return certify_linear(problem, weights, Evidence(*rows.evidence(problem, weights, beta)))
