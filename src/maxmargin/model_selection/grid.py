"""All fits of a grid of kernels, parameters and folds.

    for each kernel (gamma)          one kernel matrix, made from one matrix of distances
        for each fold                a chain, independent of the others: one thread
            for each C, ascending    starts from the solution before it
                solve, certify, score on the samples that were held out

A chain needs no kernel rows of its own: held-out samples are variables with a box of zero width, and an up-to-date gradient of
the solver contains their decision values too.
"""

from __future__ import annotations

import functools
import queue
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import Backend
from maxmargin.certificates import combine
from maxmargin.control import Control, Stop
from maxmargin.gram import Gram, rounding_of_distances
from maxmargin.kernels import Kernel, NamedKernel
from maxmargin.model_selection.answers import Answer, Answers
from maxmargin.samples import Samples
from maxmargin.solution import Solution, Status
from maxmargin.solvers import FAST, Job, block_smo
from maxmargin.tasks import Task
from maxmargin.training import Case, Outcome, make_case, settle, train_chain

Mask = NDArray[np.bool_]

#: Up to this many samples a kernel matrix is stored as a whole, and chains run side by side; with more, one after the other.
LARGEST_WHOLE_MATRIX = 8192
#: Random rows and columns in which a kernel matrix is compared with newly computed entries, and the largest relative difference.
CHECKED_ENTRIES, LARGEST_DIFFERENCE = 16, 1e-9
#: Share of the support vectors that stand for all of them in the first guess at a solution.
SHARE_OF_FIRST_GUESS = 0.25


@dataclass(frozen=True)
class Fit:
    """The result of one point of the grid on one fold."""

    kernel: int
    point: int
    fold: int
    scores: Mapping[str, float]  # by the names of the scorers; empty if the point was rejected as hopeless
    relative_gap: float
    status: Status | None  # None, with NaN for the numbers, if the point was rejected
    fit_seconds: float
    score_seconds: float


@dataclass(frozen=True)
class Grid:
    """A grid to fit: `task(fold, point)` is the task of a fold for a point of the parameters other than the kernel's; the points
    are in an order in which each solution helps the next, the samples in the order of the kernel matrix."""

    task: Callable[[int, int], Task]
    n_folds: int
    n_points: int
    segments: tuple[int, ...]
    samples: Samples
    kernels: Sequence[Kernel]
    answer: Answer
    score: Callable[[Answers, Mask], Mapping[str, float]]
    backend: Backend
    stop: Stop
    cache_bytes: int
    #: A function, called before each fit, that says whether the fit (kernel, point) can no longer become the best.
    hopeless: Callable[[int, int], bool] | None = None

    def __len__(self) -> int:
        return len(self.kernels) * self.n_points * self.n_folds

    def run(self, control: Control) -> Generator[Fit, None, None]:
        """Yield the fits as they are done, until all are done or the control ends the run."""
        n = len(self.samples)
        with self.backend.session(n * n):
            if n <= LARGEST_WHOLE_MATRIX and isinstance(self.kernels[0], NamedKernel):
                remembers = replace(self, task=functools.cache(self.task))  # small problems, which all kernels have in common
                yield from remembers._run_side_by_side(control)
            elif self.backend.n_devices > 1:
                yield from self._run_on_devices(control)
            else:
                yield from self._run_in_turn(control)

    def _run_in_turn(self, control: Control) -> Iterator[Fit]:
        for k, kernel in self._turns():
            gram = self.backend.gram(kernel, self.samples, np.dtype(np.float32), self.cache_bytes, self.segments)
            for fold in range(self.n_folds):
                yield from self._chain(k, gram, fold, control.share())

    def _run_on_devices(self, control: Control) -> Iterator[Fit]:
        """Run the chains of two kernels at a time, one on each device."""
        done: queue.SimpleQueue[Fit] = queue.SimpleQueue()
        running: set[Future[None]] = set()

        def chain(k: int, gram: Gram, fold: int) -> None:
            for fit in self._chain(k, gram, fold, control.share()):
                done.put(fit)

        with ThreadPoolExecutor(self.backend.n_devices, initializer=self.backend.use_one_thread) as pool:
            for k, kernel in self._turns():
                gram = self.backend.gram(kernel, self.samples, np.dtype(np.float32), self.cache_bytes, self.segments)
                running.update(pool.submit(chain, k, gram, fold) for fold in range(self.n_folds))
                yield from self._wait(running, self.backend.n_devices - 1, done)
            yield from self._wait(running, 0, done)

    def _run_side_by_side(self, control: Control) -> Iterator[Fit]:
        """Run the chains of two kernels at a time, so that a thread that has finished with one kernel goes on with the next; of
        more kernels only if there are more threads than chains."""
        done: queue.SimpleQueue[Fit] = queue.SimpleQueue()
        assert isinstance(self.kernels[0], NamedKernel)
        pairing = self.backend.pairing(self.kernels[0], self.samples)
        threads = self.backend.n_threads
        few = max(threads, self.n_folds - threads + 1)  # with fewer chains left a thread would soon be idle

        def chain(k: int, gram: Gram, fold: int) -> None:
            for fit in self._chain(k, gram, fold, control.share()):
                done.put(fit)

        running: set[Future[None]] = set()
        readers: list[tuple[Gram, list[Future[None]]]] = []
        with ThreadPoolExecutor(threads, initializer=self.backend.use_one_thread) as pool:
            for k, kernel in self._turns():
                yield from self._wait(running, few, done)
                if control.ended() is not None:
                    break
                assert isinstance(kernel, NamedKernel)
                free = next((one for one in readers if all(future.done() for future in one[1])), None)
                if free is not None:
                    readers.remove(free)
                rounding = kernel.rounding(self.samples.n_terms) + self._rounding_of_distances(kernel)
                gram = self.backend.whole(kernel, pairing, self.segments, rounding, free[0] if free else None)
                self._check_entries(gram, kernel)
                everything = tuple(range(len(self.segments) - 1))
                chains = [pool.submit(chain, k, gram.restrict(everything), fold) for fold in range(self.n_folds)]
                readers.append((gram, chains))
                running.update(chains)
            yield from self._wait(running, 0, done)

    def _rounding_of_distances(self, kernel: NamedKernel) -> float:
        """A bound on the further error of a kernel value if distances come from dot products (`rounding_of_distances` has it for
        kernel sums)."""
        farthest = self.samples.take(np.array([self.samples.squared_norms().argmax()]))
        return 2.0 * float(np.max(rounding_of_distances(kernel, farthest, farthest, np.ones((1, 1)))))

    def _check_entries(self, gram: Gram, kernel: NamedKernel) -> None:
        """Compare some entries of the matrix, which certificates read, with entries computed independently."""
        n = len(self.samples)
        rows, columns = np.random.default_rng(n).integers(n, size=(2, CHECKED_ENTRIES)).astype(np.int32)
        fresh = self.samples.take(rows).block(kernel, self.samples.take(columns))
        kept = gram.in_float64().block(rows, columns)
        off = float(np.abs(fresh - kept).max())
        if off > LARGEST_DIFFERENCE * max(1.0, float(np.abs(fresh).max())):
            raise ArithmeticError(f"a kernel matrix of the grid is off by {off:.3g}, and nothing that it proves would hold")

    def _turns(self) -> list[tuple[int, Kernel]]:
        """The order of the kernels: those with the most support vectors first, so that the threads end together. These are the
        kernels with a large gamma, which makes samples less alike. They are also the worst; if a score can make other points
        hopeless, the better kernels come first."""
        sign = -1.0 if self.hopeless is None else 1.0
        return sorted(enumerate(self.kernels), key=lambda one: sign * getattr(one[1], "gamma", 1.0))

    def _wait(self, running: set[Future[None]], at_most: int, done: queue.SimpleQueue[Fit]) -> Iterator[Fit]:
        """Wait until at most `at_most` chains run, and yield the fits that they finish meanwhile."""
        while True:
            while not done.empty():
                yield done.get()
            if len(running) <= at_most:
                return
            finished, _ = wait(running, timeout=0.05, return_when=FIRST_COMPLETED)
            running -= finished
            for future in finished:
                future.result()  # raise the error of the chain, if any

    def _chain(self, k: int, gram: Gram, fold: int, control: Control) -> Iterator[Fit]:
        """Fit all points of one kernel on one fold."""
        gram = self.backend.here(gram)
        started, parts = time.perf_counter(), self.task(fold, 0).parts(gram)
        ahead = iter(self._solve_ahead(parts, fold, control))
        last: list[Outcome] | None = None
        for point in range(self.n_points):
            if control.ended() is not None:
                return
            if self.hopeless is not None and self.hopeless(k, point):
                yield Fit(k, point, fold, {}, np.nan, None, np.nan, np.nan)
                continue
            task, outcomes = next(ahead, (None, []))
            if task is None:
                task = self.task(fold, point)
                cases = self._cases(task, parts, control)
                if last is None:
                    claims = [self._begin(case.job) for case in cases]
                else:
                    claims = [self._go_on(case.job, before) for case, before in zip(cases, last, strict=True)]
                outcomes = [settle(FAST, *one) for one in zip(cases, claims, strict=True)]
            trouble = [one.solution.status for one in outcomes if not one.solution.status.converged]
            if trouble and control.ended() is not None:  # the fit was ended early
                return
            fitted = time.perf_counter()
            answers = self.answer(task, outcomes, gram, self.kernels[k], self.samples, self.backend)
            assert task.held_out is not None
            scores = self.score(answers, task.held_out)
            proofs = [one.proof for one in outcomes]
            gap = proofs[0].relative_gap if len(proofs) == 1 else combine(proofs, np.empty(0)).relative_gap
            status = trouble[0] if trouble else outcomes[0].solution.status
            last = outcomes
            yield Fit(k, point, fold, scores, gap, status, fitted - started, time.perf_counter() - fitted)
            started = time.perf_counter()

    def _cases(self, task: Task, parts: Sequence[Gram], control: Control) -> list[Case]:
        jobs = [Job(*one, self.backend, self.stop, control) for one in zip(task.problems, parts, strict=True)]
        return [make_case(job, task.kept_levels) for job in jobs]

    def _solve_ahead(self, parts: Sequence[Gram], fold: int, control: Control) -> list[tuple[Task, list[Outcome]]]:
        """The tasks and outcomes of the first points of a chain: those that the backend solves in one call for each machine, if
        the problems are small. None if points may turn out to be hopeless."""
        if self.hopeless is not None or control.ended() is not None:
            return []
        tasks = [self.task(fold, point) for point in range(self.n_points)]
        cases = [self._cases(task, parts, control) for task in tasks]
        chains = [train_chain(machine) for machine in zip(*cases, strict=True)]
        return [(task, list(outcomes)) for task, *outcomes in zip(tasks, *chains, strict=False)]

    def _begin(self, job: Job) -> Solution:
        """Solve the first problem of a chain: from zero or, if C is so small that most duals end at a bound, from the point to
        which two steps of Frank and Wolfe's method lead. In the first step a few support vectors stand for all."""
        problem, gram = job.problem, job.gram
        if problem.shift is None and gram.remembers:
            point = problem.vertex(problem.linear)
            for share in (SHARE_OF_FIRST_GUESS, 1.0):
                support = np.flatnonzero(point).astype(np.int32)[:: round(1.0 / share)]
                gradient = problem.linear.copy()
                gram.accumulate(support, point[None, support] / share, gradient[None])
                if share < 1.0:
                    point = problem.vertex(gradient)
            if problem.violation(point, gradient) < problem.violation(np.zeros(len(problem)), problem.linear):
                job = job._replace(start=point, known=(point, gradient))
        return block_smo.solve(job)

    def _go_on(self, job: Job, last: Outcome) -> Solution:
        """Solve the next problem of a chain from the solution of the one before; in float64 if that was in float64."""
        problem, before, beta, gradient = job.problem, last.problem, last.solution.beta, last.solution.gradient
        gram = job.gram.in_float64() if last.solution.arithmetic.startswith("float64") else job.gram
        start, r = problem.carry_over(before, beta, gradient)
        known = r * beta, problem.gradient_at_multiple(r, before, beta, gradient)
        return block_smo.solve(job._replace(gram=gram, start=start, known=known))
