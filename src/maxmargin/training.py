"""Solve, certify, and continue if the certificate contradicts the solver.

A solver claims that it is done; it judges by a gradient that it has kept up to date, in whatever arithmetic. The certificate is
computed from the dual point alone, by other code, and decides the status (`decide`). If it contradicts the claim of the fast
solver, the solver continues from the same point with the certificate's gradient, in float64 and to a smaller tolerance, as long
as that helps (`settle`). The point with the smallest certified gap is kept.

Textbook solvers are never continued: they end as their textbook says, and the status tells the result.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import SamplesLostError
from maxmargin.certificates import (
    Certificate,
    Gradient,
    certificate_of,
    certify,
    certify_jointly,
    recompute,
    recompute_jointly,
)
from maxmargin.control import Control, Stop
from maxmargin.formulations import CrammerSingerProblem, DualProblem
from maxmargin.gram import ExactSums, Gram
from maxmargin.rounding import UNIT_ROUNDOFF
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers import Choice, Job, SolverOptions, go_on, solve, solve_ahead, solve_as_linear
from maxmargin.solvers.separability import hulls_meet

Vector = NDArray[np.float64]
#: A function from the best levels (for one group, minus the bias) to the levels of the model.
Levels = Callable[[Vector], Vector]

MOST_CONTINUATIONS = 6
MOST_CONTINUATIONS_AFTER_STALLS = 1  # times that a stalled solver is continued with the certificate's gradient
LARGE_ENTRIES = 1e3  # kernel entries above this make the rounding errors of sums of duals matter
PROGRESS = 0.9  # a gap below this share of the one before is progress
IMPOSSIBLE_EXCESS = 1e-6  # a dual value above a primal value by more than this share of it is impossible
#: Claims that a solver may be wrong about because its gradient has drifted.
DOUBTFUL = (Status.CONVERGED, Status.GAP_REACHED, Status.STALLED)
OUT_OF_TIME = (Status.MAX_ITER, Status.MAX_SECONDS, Status.INTERRUPTED, Status.STOPPED_BY_CALLBACK)
SHORT_OF_CLAIM = {True: Status.STALLED, False: Status.STOPPED_BY_OPTION}  # keys: whether the solver may be continued


class Outcome(NamedTuple):
    """What came of a problem over its kernel matrix: a solution and its certificate."""

    problem: Any
    gram: Gram
    solution: Solution
    proof: Certificate


class Case(ABC):
    """A problem with its kernel matrix, and the certification of its points."""

    def __init__(self, job: Job) -> None:
        self.job, self.problem, self.gram = job, job.problem, job.gram

    def moved(self, gram: Gram, control: Control) -> Self:
        """The same case over its kernel matrix on another device."""
        case = copy(self)
        case.job, case.gram = self.job._replace(gram=gram, control=control), gram
        return case

    @property
    def simple(self) -> bool:
        """Whether `Backend.prove_each` may certify the case: boxes without a shift, at most one sum to keep, the best level, and
        duals that need no tidying."""
        return False

    def at_start(self, solution: Solution) -> Solution:
        """The solution at the default start of a run: the start of the problem, or zero."""
        beta = np.zeros_like(self.problem.linear) if self.problem.start is None else self.problem.start
        return replace(solution, beta=beta, gradient=self.problem.linear, up_to_date=not beta.any())

    @abstractmethod
    def value_of_zero_weights(self) -> float:
        """The primal value of the machine w = 0, which no dual value can exceed; infinite if w = 0 is not feasible."""

    def is_impossible(self, proof: Certificate) -> bool:
        """Whether a dual value is impossible: infinite, or negative (at zero it is not), or above a primal value."""
        if not np.isfinite(proof.dual):
            return True
        most = self.value_of_zero_weights()
        slack = min(proof.rounding + proof.value_error, most) + IMPOSSIBLE_EXCESS * most
        return most < np.inf and not -slack <= proof.dual <= most + slack

    def trusts_claims(self) -> bool:
        """Whether a solver's gradient may stand for entries that are not recomputed. Not if recomputing them is cheap, as K is a
        product of two factors; nor with a named kernel that need not be positive semi-definite, for which errors of a gradient
        say little about each other."""
        return True

    def tidy(self, solution: Solution) -> Solution:
        """The solution without rounding errors in its sums, where these matter."""
        return solution

    def repaired(self, solution: Solution) -> Solution:
        """The solution, moved to a point that satisfies the constraints."""
        return solution

    @abstractmethod
    def gradient(self, solution: Solution) -> Gradient:
        """Recompute the gradient at the point of a solution."""

    @abstractmethod
    def certificate(self, solution: Solution, gradient: Gradient, started: float) -> Certificate: ...


class BinaryCase(Case):
    """The case of a `DualProblem`; `levels` may change the levels of the model."""

    problem: DualProblem

    def __init__(self, job: Job, levels: Levels | None = None) -> None:
        super().__init__(job)
        self.kept_levels = levels

    @property
    def simple(self) -> bool:
        plain = self.problem.shift is None and self.problem.starts_at_zero
        return plain and self.kept_levels is None and not self._needs_tidying()

    def _needs_tidying(self) -> bool:
        kernel = self.gram.kernel
        if not self.problem.coupled or (kernel.named and kernel.shift_invariant):  # entries of at most 1, never centred
            return False
        return self.gram.samples.centre is not None or float(self.gram.diagonal().max()) > LARGE_ENTRIES

    def tidy(self, solution: Solution) -> Solution:
        if not self._needs_tidying():
            return solution
        return replace(solution, beta=self.problem.with_exact_sums(solution.beta))

    def repaired(self, solution: Solution) -> Solution:
        return replace(solution, beta=self.problem.feasible(solution.beta), up_to_date=False)

    def value_of_zero_weights(self) -> float:
        problem = self.problem
        if problem.start is not None or problem.hard:
            return np.inf
        zero = np.zeros(len(problem))
        return float(problem.gap_terms(zero, problem.linear, problem.best_level(zero, problem.linear)).sum())

    def gradient(self, solution: Solution) -> Gradient:
        support, beta = _support(solution)

        def sums(at: NDArray[np.int32]) -> ExactSums:
            return self.gram.exact_sums(support, beta[None, :], at)

        claim = solution.gradient if solution.up_to_date and self.trusts_claims() else None
        levels = self._given_levels(solution)
        if levels is None and claim is not None and solution.status.converged:
            levels = self.problem.middles(solution.beta, claim)
        return recompute(self.problem, solution.beta, sums, claim, levels)

    def trusts_claims(self) -> bool:
        kernel = self.gram.kernel
        return not (kernel.explicit or (kernel.named and not kernel.definite)) or self.gram.samples.stored

    def _given_levels(self, solution: Solution) -> Vector | None:
        """The levels that belong to the solver's own bias, if the model is to keep it; else None."""
        return None if solution.bias is None else np.array([-solution.bias])

    def certificate(self, solution: Solution, gradient: Gradient, started: float) -> Certificate:
        given = self._given_levels(solution)
        levels = self.problem.levels(solution.beta, gradient.values) if given is None else given
        if self.kept_levels is not None:
            levels = self.kept_levels(levels)
        bias = None
        if not self.problem.coupled:  # the bias, if there is one, is a weight like the others
            bias = self.gram.constant * float(solution.beta.sum())
        elif self.gram.samples.centre is not None:
            offset, rounding = gradient.offset
            bias = -float(levels.mean()) - offset
            # the certificate is for the level of the rounded intercept, which the model keeps
            levels = levels - (((bias + offset) + rounding) + float(levels.mean()))
        return certify(
            self.problem,
            solution.beta,
            gradient,
            lambda: largest_norm(self.gram, solution.beta),
            levels,
            started,
            bias,
        )


def _support(solution: Solution) -> tuple[NDArray[np.int32], Vector]:
    """The variables that are not zero, and their values."""
    support = np.flatnonzero(solution.beta).astype(np.int32)
    return support, solution.beta[support]


def largest_norm(gram: Gram, beta: Vector) -> float:
    """The bound sum_i |c_i| sqrt(k(x_i, x_i)) on the norm of sum_i c_i phi(x_i), where the coefficient c_i of a sample is the sum
    of its variables (regression has two), up to their rounding."""
    sizes = np.sqrt(np.maximum(gram.diagonal(), 0.0))[: gram.n_samples]
    variables = beta.reshape(-1, gram.n_samples)
    return float((np.abs(variables.sum(axis=0)) + UNIT_ROUNDOFF * np.abs(variables).sum(axis=0)) @ sizes)


class JointCase(Case):
    """The case of a `CrammerSingerProblem`."""

    problem: CrammerSingerProblem

    def value_of_zero_weights(self) -> float:
        return float(self.problem.gap_terms(np.zeros_like(self.problem.linear), self.problem.linear).sum())

    def gradient(self, solution: Solution) -> Gradient:
        support = np.flatnonzero(solution.beta.any(axis=0)).astype(np.int32)
        B = np.ascontiguousarray(solution.beta[:, support])
        claim = solution.gradient if solution.up_to_date else None
        return recompute_jointly(self.problem, solution.beta, lambda at: self.gram.exact_sums(support, B, at), claim)

    def certificate(self, solution: Solution, gradient: Gradient, started: float) -> Certificate:
        return certify_jointly(self.problem, solution.beta, gradient, started)


def make_case(job: Job, levels: Levels | None = None) -> Case:
    return JointCase(job) if isinstance(job.problem, CrammerSingerProblem) else BinaryCase(job, levels)


def train_each(
    choice: Choice,
    cases: Sequence[Case],
    options: SolverOptions | None = None,
    orders: Sequence[NDArray[np.intp]] | None = None,
) -> Iterator[Outcome]:
    """Solve several problems over one kernel matrix and yield their solutions with certificates, in their order. Small ones are
    solved and certified many at a time. `orders`, repeated as often as necessary, are those of `solvers.solve`."""
    first = cases[0].job.control.machine if cases else 0
    if orders is None and _may_spread(cases):
        yield from _train_on_devices(choice, cases, options)
        return
    if len(cases) > 1:  # what one machine has no further use for, another one may need; one that is a single tile keeps nothing
        for case in (case for case in cases if len(case.gram) > case.job.backend.inner.largest_tile):
            case.gram.expect(np.arange(len(case.gram), dtype=np.int32))
    for begin, some in _batches(cases):
        some[0].job.control.begin_turn(first + begin, len(some))
        ahead: Mapping[int, Solution] = {}
        proofs: Mapping[int, Certificate] = {}
        try:
            with some[0].job.backend.watched():
                ahead = solve_ahead(choice, [case.job for case in some])
                proofs = _prove_together(some, ahead)
        except SamplesLostError as error:
            some[0].job.control.failure = error
        for number, case in enumerate(some, begin):
            case.job.control.begin_turn(first + number)
            claim, proof = ahead.get(number - begin), proofs.get(number - begin)
            if claim is not None and proof is not None and proof.meets(case.job.stop.tol, case.job.stop.gap_tol):
                yield _settled(case, claim, proof)
            else:
                order = None if orders is None else orders[number % len(orders)]
                case.job.control.catch_interrupts()
                steps = case.job.control.steps
                try:
                    with case.job.backend.watched():
                        outcome = settle(choice, case, solve(choice, case.job, claim, options, order))
                except SamplesLostError as error:
                    if not isinstance(case, BinaryCase):
                        raise
                    case.job.control.failure = error
                    outcome = _rescued(case, claim, case.job.control.steps - steps)
                yield outcome
            case.job.control.machine = first + number + 1


def _may_spread(cases: Sequence[Case]) -> bool:
    """Whether the backend has several devices for the cases. Limits of steps and of time are shared out in turn, on one."""
    if len(cases) < 2 or cases[0].job.backend.n_devices < 2:
        return False
    control = cases[0].job.control
    return not control.limits_steps and not control.limits_seconds


def _train_on_devices(choice: Choice, cases: Sequence[Case], options: SolverOptions | None) -> Iterator[Outcome]:
    """Like `train_each`, with a thread for each device of the backend; callbacks are told of machines that are done."""
    backend, control = cases[0].job.backend, cases[0].job.control
    first, shares = control.machine, shares_of_work([len(case.gram) ** 2 for case in cases], backend.n_devices)

    def train(share: list[int]) -> dict[int, Outcome]:
        backend.use_one_thread()
        part = control.share()
        moved = [cases[number].moved(backend.here(cases[number].gram), part) for number in share]
        outcomes = dict(zip(share, train_each(choice, moved, options), strict=True))
        control.failure = control.failure or part.failure
        return outcomes

    with ThreadPoolExecutor(len(shares)) as pool:
        outcomes = {number: outcome for share in pool.map(train, shares) for number, outcome in share.items()}
    for number, case in enumerate(cases):
        outcome = outcomes[number]
        control.machine = first + number
        control.steps += outcome.solution.steps
        control.report(0, outcome.proof.kkt_violation, outcome.proof.relative_gap, 1.0)
        yield outcome._replace(gram=case.gram)
        control.machine = first + number + 1


def shares_of_work(work: Sequence[int], n_shares: int) -> list[list[int]]:
    """The numbers of some pieces of work in shares that are about equal: each goes to the least share, the largest first."""
    shares: list[list[int]] = [[] for _ in range(n_shares)]
    for number in sorted(range(len(work)), key=lambda number: -work[number]):
        min(shares, key=lambda share: sum(work[k] for k in share)).append(number)
    return [sorted(share) for share in shares if share]


def _batches(cases: Sequence[Case]) -> Iterator[tuple[int, Sequence[Case]]]:
    """Some cases at a time, with the number of the first: as many as the inner solver takes in one call."""
    begin, entries = 0, 0
    for number, case in enumerate(cases):
        entries, backend = entries + len(case.gram) ** 2, case.job.backend
        if entries >= backend.inner.entries_at_once * backend.n_threads or number + 1 == len(cases):
            yield begin, cases[begin : number + 1]
            begin, entries = number + 1, 0


def _prove_together(cases: Sequence[Case], ahead: Mapping[int, Solution]) -> dict[int, Certificate]:
    """The certificates, by number, of cases that were solved ahead, where the backend has code for many of them at once."""
    which = [number for number, solution in ahead.items() if solution.status.converged and cases[number].simple]
    if not which:
        return {}
    started = time.perf_counter()
    job, some = cases[which[0]].job, [cases[number] for number in which]
    with job.control.clock_stopped():
        betas = [ahead[number].beta for number in which]
        claims = [ahead[number].gradient for number in which] if some[0].trusts_claims() else ()
        proved = job.backend.prove_each([case.gram for case in some], [case.problem for case in some], betas, claims)
    if proved is None:
        return {}
    seconds = (time.perf_counter() - started) / len(which)
    each = zip(which, some, proved, strict=True)
    return {number: certificate_of(case.problem, *found, seconds) for number, case, found in each}


def _settled(case: Case, solution: Solution, proof: Certificate) -> Outcome:
    """The outcome of a case whose certificate confirms the claim of the solver, recorded and reported."""
    control = case.job.control
    solution.trace.append(control.seconds, 0, proof.kkt_violation, proof.dual, proof.gap)
    control.report(0, proof.kkt_violation, proof.relative_gap, 1.0)
    return _outcome(case, solution, Status.CONVERGED, proof)


def train_chain(cases: Sequence[Case]) -> list[Outcome]:
    """The outcomes of the first of several cases over one kernel matrix, whose problems differ in their boxes only, each started
    from the solution of the one before: as many as the backend solves and certifies in one call."""
    job = cases[0].job
    stop, control = job.stop, job.control
    if not np.isfinite(stop.tol) or not all(case.simple for case in cases):
        return []
    started = time.perf_counter()
    found = job.backend.solve_chain(job.gram, [case.problem for case in cases], stop.tol, stop.gap_tol, control.seconds_left)
    seconds = (time.perf_counter() - started) / max(1, len(found))
    outcomes = []
    for case, link in zip(cases, found, strict=False):
        proof = certificate_of(case.problem, link.numbers, link.terms, seconds)
        if not proof.meets(stop.tol, stop.gap_tol):
            break
        claim = Solution(link.beta, link.gradient, Status.CONVERGED, proof.kkt_violation, link.steps, Trace(), "float64 kernel")
        outcomes.append(_settled(case, claim, proof))
    return outcomes


def settle(choice: Choice, case: Case, solution: Solution) -> Outcome:
    """The solution with its certificate and the status that follows from it; a better solution if the certificate contradicts the
    solver's claim."""
    stop, control = case.job.stop, case.job.control
    solution = case.tidy(solution)
    gradient, proof = _prove(case, solution)
    if not proof.feasible:  # the dual value of an infeasible point bounds nothing
        solution = case.repaired(solution)
        gradient, proof = _prove(case, solution)
    if not solution.up_to_date:
        solution = replace(solution, gradient=gradient.values, up_to_date=True)
    best, best_proof, tol, stalls = solution, proof, stop.tol, 0
    for _ in range(MOST_CONTINUATIONS):
        if proof.meets(stop.tol, stop.gap_tol) or solution.status not in DOUBTFUL or not choice.continues:
            break
        stalls += solution.status is Status.STALLED
        if stalls > MOST_CONTINUATIONS_AFTER_STALLS or control.ended() is not None:
            break
        start = gradient.values
        if case.is_impossible(proof):  # start again: the point is useless
            solution = case.at_start(solution)
            start = solution.gradient
        elif proof.kkt_violation <= tol and stop.gap_tol is not None:
            tol = stop.tighter(tol, proof.kkt_violation, proof.relative_gap)
        stricter = case.job._replace(gram=case.gram.in_float64(), stop=Stop(tol, stop.gap_tol))
        further = go_on(stricter, solution, start)
        solution = case.tidy(further)
        gradient, proof = _prove(case, solution)
        worth_it = proof.gap < PROGRESS * best_proof.gap or proof.meets(stop.tol, stop.gap_tol)
        if proof.gap < best_proof.gap or worth_it:
            best, best_proof = solution, proof
        if not worth_it:
            break
    if choice.tries_linear and not best_proof.meets(stop.tol, stop.gap_tol) and control.ended() is None:
        solution = case.tidy(solve_as_linear(case.job))
        proof = _prove(case, solution)[1]
        if proof.gap < best_proof.gap:
            best, best_proof = solution, proof
    status = decide(best.status, best_proof, stop, choice.continues)
    if status is Status.STALLED:
        status = control.ended() or status
    doubtful = status in (Status.STALLED, *OUT_OF_TIME) or not np.isfinite(best_proof.dual)
    astray = status is Status.STALLED and best_proof.gap > case.value_of_zero_weights()
    if choice.continues and doubtful and (astray or case.is_impossible(best_proof)):
        best = case.at_start(best)  # rounding has spoilt the run: w = 0 is better
        best_proof = _prove(case, best)[1]
    if status is Status.NOT_SEPARABLE and not _proves_inseparable(case, best):
        status = Status.STALLED
    return _outcome(case, best, status, best_proof)


def _outcome(case: Case, solution: Solution, status: Status, proof: Certificate) -> Outcome:
    gap_tol = case.job.stop.gap_tol
    if status.converged and gap_tol is not None and not proof.holds(gap_tol):  # rounding only
        proof = replace(proof, relative_gap=0.0)
    return Outcome(case.problem, case.gram, solution if status is solution.status else replace(solution, status=status), proof)


def _rescued(case: Case, ahead: Solution | None, steps: int) -> Outcome:
    """The outcome of a run in which samples were lost: the point that it had reached. Its dual value, from the support vectors
    alone, is a lower bound on the optimum. The losses of the lost samples are not known, so the gap has no bound."""
    assert isinstance(case, BinaryCase)
    problem, beta = case.problem, case.job.backend.reached(case.problem)
    beta = ahead.beta if beta is None and ahead is not None else beta
    claim = Solution(np.empty(0), problem.linear, Status.SOURCE_FAILED, np.inf, steps, Trace(), "none")
    claim = case.at_start(claim) if beta is None else replace(claim, beta=beta, up_to_date=False)
    support, own = _support(claim)
    if not len(support):  # the gradient at zero is known without the samples
        known = Gradient(problem.linear, 0.0, 0.0, len(problem))
        return Outcome(problem, case.gram, claim, certify(problem, claim.beta, known, lambda: 0.0))
    part = case.job._replace(problem=problem.restrict(support), gram=case.gram.subset(support))
    _, proof = _prove(BinaryCase(part, case.kept_levels), replace(claim, beta=own))
    terms = np.full(len(problem), np.nan)
    terms[support] = proof.gap_terms
    proof = replace(
        proof,
        primal=np.inf,
        gap=np.inf,
        relative_gap=np.inf,
        kkt_violation=np.inf,
        rounding=0.0,
        equality_residual=float(np.abs(problem.residuals(claim.beta)).max(initial=0.0)),
        arithmetic="float64 on the support vectors",
        gap_terms=terms,
        complete=False,
    )
    return Outcome(problem, case.gram, claim, proof)


def _prove(case: Case, solution: Solution) -> tuple[Gradient, Certificate]:
    with case.job.control.clock_stopped():
        started = time.perf_counter()
        gradient = case.gradient(solution)
        return gradient, case.certificate(solution, gradient, started)


def decide(claim: Status, proof: Certificate, stop: Stop, continues: bool = True) -> Status:
    """The status of a point: converged if its certificate proves that; else how the run ended."""
    if claim in (Status.NOT_SEPARABLE, Status.UNBOUNDED, Status.STATIONARY):
        return claim
    if proof.meets(stop.tol, stop.gap_tol):
        return Status.CONVERGED if np.isfinite(stop.tol) else Status.GAP_REACHED
    return SHORT_OF_CLAIM[continues] if claim.converged else claim


def _proves_inseparable(case: Case, solution: Solution) -> bool:
    gradient = case.gradient(solution).values
    return hulls_meet(case.problem, case.problem.sums(solution.beta, gradient), float(case.gram.diagonal().max()))
