r"""The problem handed to a quadratic programming package, as the textbooks suggest: the oracle for small problems.

    form="dual"      min    1/2 beta' (K + diag(shift)) beta + linear' beta         any kernel
                     s.t.   lower <= beta <= upper,   sum(beta) = 0

    form="primal"    min    1/2 |w|^2 + sum_i C_i xi_i  (or C_i xi_i^2)             the linear kernel
                     s.t.   y_i (w . x_i + b) >= 1 - xi_i,   xi_i >= 0

The hard margin has no xi and no upper bounds. Clarabel, an interior-point solver, does the work; its answer is a point
near the bounds of the box but on none of them. So what is within `SNAP` of a bound is put there, and the others, which are
then the solution of a linear system, are computed from it where that lowers the violation.

**Without labels** the primal constraint of a sample whose dual may be positive (y = 1) is E_i >= -xi_i, that of one whose dual
may be negative E_i <= xi_i, with E_i = w . x_i + b + linear_i; the multipliers of the two are beta_i and -beta_i, and the prices
of slack are the ends of the box.

**Not separable.** Then the dual of the hard margin has a ray along which it grows for ever, and the constraints of the primal
add up to a contradiction, with that ray as multipliers. An interior-point solver returns either of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.control import Control
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course, Matrix, kernel_matrix
from maxmargin.solvers.job import Job
from maxmargin.solvers.options import SolverOptions, one_of
from maxmargin.solvers.primal import features_of, gradient_at
from maxmargin.solvers.separability import best_multiple, hulls_meet

Vector = NDArray[np.float64]

SNAP = 1e-6  # a dual within this distance of a bound, relative to the largest dual, is moved to the bound
TIGHT = 1e-10  # tolerances of the interior-point method; such small ones cost only a few more iterations


@dataclass(frozen=True)
class Options(SolverOptions):
    """`form`: the problem that is handed over, "dual" or "primal" (linear kernel)."""

    form: str = one_of("dual", "primal")


def solve(job: Job, options: Options = Options()) -> Solution:
    """Minimise over the kernel matrix or its features. An interior-point method has no use for a start."""
    problem, gram, course = job.problem, job.gram, Course(job._replace(start=None))
    programme: _DualProgramme | _PrimalProgramme
    programme = _PrimalProgramme(problem, gram) if options.form == "primal" else _DualProgramme(problem, gram)
    beta = course.begin()
    if (status := course.ended(beta, programme.gradient(beta))) is None:
        answer = _minimise(programme, job.control)
        course.step(int(answer.iterations))
        beta = problem.feasible(np.nan_to_num(programme.duals(answer), posinf=0.0, neginf=0.0))  # the package may have failed
        if hulls_meet(problem, problem.sums(beta, programme.gradient(beta)), float(gram.diagonal().max())):
            beta *= best_multiple(problem, beta, programme.gradient(beta))
        else:
            beta = _polish(problem, programme, beta)
        status = course.ended(beta, programme.gradient(beta)) or Status.STALLED
    return course.solution(beta, programme.gradient(beta), status)


def _minimise(programme: _DualProgramme | _PrimalProgramme, control: Control) -> Any:
    """Solve min 1/2 x'Px + q'x  s.t.  A x = b in the first rows, A x <= b in the others."""
    try:
        import clarabel  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("solver='qp' needs Clarabel: pip install maxmargin[qp]") from error
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TIGHT
    settings.tol_infeas_abs = settings.tol_infeas_rel = TIGHT
    settings.max_iter = control.steps_left(settings.max_iter)
    rows = len(programme.b)
    cones = [clarabel.ZeroConeT(programme.n_equalities), clarabel.NonnegativeConeT(rows - programme.n_equalities)]
    solver = clarabel.DefaultSolver(programme.P, programme.q, programme.A, programme.b, cones, settings)
    solver.set_termination_callback(lambda info: control.ended() is not None)
    return solver.solve()


class _DualProgramme:
    """The dual as a quadratic programme in x = beta. Rows: the sum, duals with a box of zero width, upper bounds, lower
    bounds."""

    def __init__(self, problem: DualProblem, gram: Gram) -> None:
        self._linear = problem.linear
        self._K = kernel_matrix(gram, problem.shift)
        n = len(problem)
        one = sp.eye_array(n, format="csr")
        fixed = problem.lower == problem.upper
        below, above = np.isfinite(problem.upper) & ~fixed, np.isfinite(problem.lower) & ~fixed
        sums = [np.ones((1, n))] if problem.coupled else []
        totals = -problem.residuals(np.zeros(n))
        self.n_equalities = len(sums) + int(fixed.sum())
        self.P, self.q = sp.csc_array(np.triu(self._K)), problem.linear
        self.A = sp.csc_array(sp.vstack([*sums, one[fixed], one[below], -one[above]]))
        self.b = np.concatenate([totals, problem.lower[fixed], problem.upper[below], -problem.lower[above]])

    def duals(self, answer: Any) -> Vector:
        return np.array(answer.x)

    def gradient(self, beta: Vector) -> Vector:
        return np.asarray(self._K @ beta + self._linear)

    def matrix(self, members: NDArray[np.intp]) -> Matrix:
        return self._K[np.ix_(members, members)]


class _PrimalProgramme:
    """The primal as a quadratic programme in x = (w, b, xi). Rows: -side (w . x_i + b) - xi <= side linear_i for each end of a
    box that is not zero; xi >= 0."""

    n_equalities = 0

    def __init__(self, problem: DualProblem, gram: Gram) -> None:
        self._problem, self._features = problem, features_of(gram)
        d = self._features.shape[1]
        up, down = np.flatnonzero(problem.upper > 0.0), np.flatnonzero(problem.lower < 0.0)
        self._sample, self._side = np.concatenate([up, down]), np.repeat([1.0, -1.0], [len(up), len(down)])
        price = np.concatenate([problem.upper[up], -problem.lower[down]])
        m = len(self._sample)
        outputs = sp.csr_array(self._features)[self._sample]
        if problem.coupled:
            outputs = sp.hstack([outputs, np.ones((m, 1))], format="csr")
        margin, slack = -sp.diags_array(self._side) @ outputs, -sp.eye_array(m)
        of_weights = np.append(np.ones(d), np.zeros(outputs.shape[1] - d))
        at_most = self._side * problem.linear[self._sample]
        if problem.hard:
            of_slack, self.q, self.A, self.b = np.empty(0), np.zeros(len(of_weights)), margin, at_most
        elif problem.shift is None:
            of_slack, self.q = np.zeros(m), np.append(0.0 * of_weights, price)
            self.A = sp.block_array([[margin, slack], [None, slack]])
            self.b = np.append(at_most, np.zeros(m))
        else:
            of_slack, self.q = 1.0 / problem.shift[self._sample], np.zeros(len(of_weights) + m)
            self.A, self.b = sp.hstack([margin, slack]), at_most
        self.P, self.A = sp.csc_array(sp.diags_array(np.append(of_weights, of_slack))), sp.csc_array(self.A)

    def duals(self, answer: Any) -> Vector:
        multipliers = self._side * np.array(answer.z)[: len(self._side)]
        beta = np.zeros(len(self._problem))
        np.add.at(beta, self._sample, multipliers)
        return beta

    def gradient(self, beta: Vector) -> Vector:
        return gradient_at(self._problem, self._features, beta)

    def matrix(self, members: NDArray[np.intp]) -> Matrix:
        rows = self._features[members]
        K = np.asarray((rows @ rows.T).todense()) if sp.issparse(rows) else rows @ rows.T
        return K if self._problem.shift is None else K + np.diag(self._problem.shift[members])


def _polish(problem: DualProblem, programme: _DualProgramme | _PrimalProgramme, beta: Vector) -> Vector:
    """The best of three points: `beta`; `beta` with duals near a bound moved to it; the latter with the free duals solved for."""
    points = [beta, _onto_bounds(problem, beta)]
    points.append(_solve_for_free(problem, programme, points[-1]))
    return min(points, key=lambda point: problem.violation(point, programme.gradient(point)))


def _onto_bounds(problem: DualProblem, beta: Vector) -> Vector:
    """`beta` with duals near a bound moved to it; the other duals share the change of the sum."""
    near = SNAP * float(np.abs(beta).max(initial=0.0))
    beta = np.where(beta - problem.lower <= near, problem.lower, beta)
    beta = np.where(problem.upper - beta <= near, problem.upper, beta)
    free = (beta > problem.lower) & (beta < problem.upper)
    if free.any() and problem.coupled:
        beta[free] -= problem.residuals(beta).sum() / free.sum()
    return np.clip(beta, problem.lower, problem.upper)


def _solve_for_free(problem: DualProblem, programme: _DualProgramme | _PrimalProgramme, beta: Vector) -> Vector:
    """`beta` after a Newton step on the duals that are not at a bound: K_ff d + v = -G_f, sum(d) = 0."""
    free = np.flatnonzero((beta > problem.lower) & (beta < problem.upper))
    m, coupled = len(free), int(problem.coupled)
    system, right = np.zeros((m + coupled, m + coupled)), np.zeros(m + coupled)
    system[:m, :m], right[:m] = programme.matrix(free), -programme.gradient(beta)[free]
    system[m:, :m] = system[:m, m:] = 1.0
    beta = beta.copy()
    beta[free] += np.linalg.lstsq(system, right)[0][:m]
    return _onto_bounds(problem, beta)
