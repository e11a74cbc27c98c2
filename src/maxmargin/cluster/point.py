"""A point in parts on the workers. This process has the duals; each worker has the gradient at its rows.

In an iteration travel: a summary of each part, the numbers and gradients of the working set, the rows of the working set that are
not here yet, and the rows that moved with their changes, to every worker. A part that was lost with its worker is made again from
the duals and the rows of the support vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.native.point import NativePoint
from maxmargin.backends.point import Indices, MeasuredViolation, Part, Point, Vector, Violation, support_of
from maxmargin.backends.reference import SHARE_FOR_FREE
from maxmargin.cluster.gram import ClusterGram
from maxmargin.cluster.kept import Message
from maxmargin.cluster.piece import Candidates, Summary, Wanted
from maxmargin.cluster.team import PartitionError, Refusal
from maxmargin.formulations import DualProblem, Sums
from maxmargin.gram import DoubledGram, Gram

MOST_LOSSES = 20  # times in a row that parts are made again before the fit gives up
_TOKENS = itertools.count()  # a number for each point


class ClusterPoint(Point):
    def __init__(self, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector | None) -> None:
        self.problem, self.gram = problem, gram
        inner = gram.inner if isinstance(gram, DoubledGram) else gram
        assert isinstance(inner, ClusterGram)
        self._rows_of: ClusterGram = inner
        self._team = inner.rows.team
        self.beta = beta
        self._token = next(_TOKENS)
        self._versions = [0] * len(self._team)
        self._wanted = Wanted()  # candidates of the last working set
        self._surveyed: tuple[list[float], Wanted, list[Candidates]] | None = None  # since the parts last changed
        self._losses = 0  # since all parts last answered
        copies = np.arange(len(gram) // len(inner))[:, None] * len(inner)
        self._variables = [(copies + own).ravel() for own, _ in inner.split]
        self._parts = [problem.restrict(own) for own in self._variables]
        self._summaries: list[Summary] = self._place(list(range(len(self._team))), gradient)

    # --- the parts ------------------------------------------------------------------------------------------------

    def _place(self, numbers: Sequence[int], gradient: Vector | None) -> list[Summary]:
        """Begin some parts anew. Without a gradient it is computed from the duals."""
        told = []
        for p in numbers:
            own, part = self._variables[p], self._parts[p]
            arrangement = self._rows_of.arrangement(self._rows_of.split[p][1], len(self.gram) // len(self._rows_of))
            beta, known = self.beta[own], None if gradient is None else gradient[own]
            if known is not None and not beta.any() and np.array_equal(known, part.linear):
                known = None  # the part can tell by itself
            told.append((self._next(p), arrangement, part, beta if beta.any() else None, known))
        summaries: list[Any] = self._team.ask("place", told, among=numbers)
        support = support_of(self.beta)
        if gradient is not None or not len(support):
            return summaries
        nothing = np.empty(0, dtype=np.int32), np.empty(0)
        for message in self._messages(support, self.beta[support], len(numbers) == len(self._team)):
            before = [self._name(p) for p in numbers]
            summaries = self._team.ask("move", [(self._next(p), *nothing) for p in numbers], message, before, numbers)
            if any(one is Refusal.STALE for one in summaries):  # another worker died in the meantime
                self._count_loss(numbers)
                return self._place(numbers, None)
        return summaries

    def _name(self, p: int) -> tuple[int, int]:
        """The version that part p should have."""
        return self._token, self._versions[p]

    def _next(self, p: int) -> tuple[int, int]:
        self._versions[p] += 1
        return self._name(p)

    def _ask(self, verb: str, told: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answers of all parts to a question that changes nothing; parts that were lost are made again first."""
        everyone = list(range(len(self._team)))
        answers: dict[int, Any] = {}
        while asked := [p for p in everyone if p not in answers]:
            found = self._team.ask(verb, [told[p] for p in asked], None, [self._name(p) for p in asked], asked)
            answers |= {p: answer for p, answer in zip(asked, found, strict=True) if answer is not Refusal.STALE}
            self._restore([p for p in asked if p not in answers])
        self._losses = 0
        return [answers[p] for p in everyone]

    def _tell(self, verb: str, told: Sequence[tuple[Any, ...]], message: Any = None, besides: Sequence[int] = ()) -> list[int]:
        """Change all parts but `besides`. The duals after the change are here already, so parts that were lost are made again
        with them; return which these are."""
        self._surveyed = None
        asked = [p for p in range(len(self._team)) if p not in besides]
        before = [self._name(p) for p in asked]
        answers = self._team.ask(verb, [(self._next(p), *told[p]) for p in asked], message, before, asked)
        for p, answer in zip(asked, answers, strict=True):
            self._summaries[p] = answer
        lost = [p for p, answer in zip(asked, answers, strict=True) if answer is Refusal.STALE]
        self._restore(lost)
        return lost

    def _restore(self, lost: Sequence[int]) -> None:
        if lost:
            self._count_loss(lost)
            self._rows_of.rows.send_all_again()
        for p, summary in zip(lost, self._place(lost, None) if lost else [], strict=True):
            self._summaries[p] = summary

    def _count_loss(self, lost: Sequence[int]) -> None:
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise PartitionError(
                f"partition {lost[0]} of X was lost {MOST_LOSSES} times in a row: its worker dies, or writes it to disk for want "
                "of memory. Give the workers more memory, or use more workers and smaller partitions"
            )

    def _messages(
        self, variables: Indices, changes: Vector, to_all: bool = True
    ) -> Iterator[tuple[Message, NDArray[np.float64]]]:
        """The rows of some variables and their changes, in messages of limited size."""
        samples, places = np.unique(variables % len(self._rows_of), return_inverse=True)
        weights: Vector = np.bincount(places, changes, len(samples)).astype(np.float64)
        for some in self._rows_of.rows.at_once(len(samples)):
            yield self._rows_of.rows.message(self._rows_of.numbers[samples[some]], to_all), weights[None, some]

    def _split(self, members: Indices) -> list[tuple[NDArray[np.intp], Indices]]:
        """For each part, which of `members` it has, and their numbers there."""
        owners = self._rows_of.rows.owners(self._rows_of.numbers[members % len(self._rows_of)])
        places = [np.flatnonzero(owners == p) for p in range(len(self._team))]
        return [(at, np.searchsorted(own, members[at]).astype(np.int32)) for at, own in zip(places, self._variables, strict=True)]

    # --- the verbs ------------------------------------------------------------------------------------------------

    def measure(self) -> Violation:
        lowest = np.array([one.lowest for one in self._summaries]).min(axis=0)
        highest = np.array([one.highest for one in self._summaries]).max(axis=0)
        n_free = int(sum(sum(one.n_free) for one in self._summaries))
        if not self.problem.coupled:
            return MeasuredViolation(max(0.0, -float(lowest[0]), float(highest[0])), (), n_free)
        levels = [self._level(g, float(lowest[g]), float(highest[g])) for g in range(len(lowest))]
        return MeasuredViolation(max(0.0, float((highest - lowest).max())), levels, n_free)

    def _level(self, group: int, lowest: float, highest: float) -> float:
        """The median gradient of the free variables of a group, of which each part has sent a sketch; without free variables, the
        middle between those that may rise and those that may fall."""
        sketches = [one.sketches[group] for one in self._summaries]
        values = np.concatenate(sketches)
        if not len(values):
            ends = np.array([lowest, highest])
            return float(np.mean(ends[np.isfinite(ends)])) if np.isfinite(ends).any() else 0.0
        weights = [one.n_free[group] / len(own) for one, own in zip(self._summaries, sketches, strict=True) if len(own)]
        sizes = np.repeat(weights, [len(own) for own in sketches if len(own)])
        order = np.argsort(values, kind="stable")
        below = np.cumsum(sizes[order])
        return float(values[order[np.searchsorted(below, 0.5 * below[-1])]])

    def choose(self, violation: Violation, threshold: float, size: int, extra_share: float, seed: int) -> tuple[Indices, bool]:
        rng = np.random.default_rng(seed)
        free = np.flatnonzero((self.beta > self.problem.lower) & (self.beta < self.problem.upper))
        self._wanted = Wanted(threshold, size, min(int(extra_share * size), size))
        offers = self._survey(violation)
        counts = np.array([one.n_violators for one in offers])
        n_wanted = len(free) + int(counts.sum())
        if len(free) > (n_kept := max(int(SHARE_FOR_FREE * size), size - int(counts.sum()))):
            free = rng.choice(free, n_kept, replace=False)
        shares = rng.multivariate_hypergeometric(counts, min(int(counts.sum()), size - len(free)), method="marginals")
        violators = [own[one.violators[:share]] for own, one, share in zip(self._variables, offers, shares, strict=True)]
        next_ones = np.concatenate([own[one.next_ones] for own, one in zip(self._variables, offers, strict=True)])
        nearest = np.argsort(np.concatenate([one.distances for one in offers]), kind="stable")
        room = min(int(extra_share * n_wanted), size - n_wanted)
        chosen = np.concatenate([free, *violators, next_ones[nearest[: max(room, 0)]], self._extremes(offers)])
        return np.unique(chosen).astype(np.int32), n_wanted <= size

    def _survey(self, violation: Violation) -> list[Candidates]:
        """The shares of the parts in the gap, and candidates for a working set. A gap that is asked for brings as many candidates
        along as the last working set needed, so that most working sets need no question of their own."""
        levels = list(violation.levels)
        if self._surveyed is None or self._surveyed[0] != levels or not self._surveyed[1].covers(self._wanted):
            told = [(levels, self._wanted, version) for version in self._versions]
            self._surveyed = levels, self._wanted, self._ask("survey", told)
        return self._surveyed[2]

    def _extremes(self, offers: list[Candidates]) -> NDArray[np.intp]:
        """The most violating pair of each group."""
        found = []
        for group in range(len(offers[0].extremes)):
            for side, sign in ((0, 1.0), (1, -1.0)):
                ends = [
                    (sign * end[0], int(own[end[1]]))
                    for own, one in zip(self._variables, offers, strict=True)
                    if (end := one.extremes[group][side]) is not None
                ]
                found += [min(ends)[1]] if ends else []
        return np.array(found, dtype=np.intp)

    def take(self, members: Indices) -> Part:
        """The rows of the members come along, because their tile or pool is needed next."""
        rows, split = self._rows_of.rows, self._split(members)
        missing = rows.missing(self._rows_of.numbers[members % len(self._rows_of)])
        told = [(local, lacking) for (_, local), (_, lacking) in zip(split, rows.split(missing), strict=True)]
        gradient, answers = np.empty(len(members)), self._ask("take", told)
        for (at, _), (own, _) in zip(split, answers, strict=True):
            gradient[at] = own
        rows.keep(missing, [part for _, part in answers])
        return Part(self.problem.restrict(members), self.beta[members], gradient)

    def move(self, members: Indices, beta: Vector, propagate: bool = True, gradient: Vector | None = None) -> bool:
        change = beta - self.beta[members]
        moved = change != 0.0
        if not moved.any():
            return False
        members, beta, change = members[moved], beta[moved], change[moved]
        self.beta[members] = beta
        told = [(local, beta[at]) for at, local in self._split(members)]
        if not propagate:
            self._tell("put", told)
            return True
        made_again: list[int] = []
        for message in self._messages(members, change):
            made_again += self._tell("move", told, message, made_again)
            told = [(local[:0], own[:0]) for local, own in told]
        if made_again:  # they have not got all these rows
            self._rows_of.rows.send_all_again()
        return True

    def exact(self, at: Indices) -> Vector:
        support = support_of(self.beta)
        gradient: Vector = self.gram.exact_sums(support, self.beta[None, support], at).values[0] + self.problem.linear[at]
        return gradient if self.problem.shift is None else gradient + self.problem.shift[at] * self.beta[at]

    def correct(self, members: Indices, gradient: Vector) -> None:
        self._tell("correct", [(local, gradient[at]) for at, local in self._split(members)])

    def sums(self) -> Sums:
        return Sums(*(sum(values) for values in zip(*(one.sums for one in self._summaries), strict=True)))

    def gap(self, violation: Violation) -> float:
        return float(sum(one.gap for one in self._survey(violation)))

    def band(self, members: Indices, violation: Violation, width: float) -> Indices:
        near = self._ask("near", [(list(violation.levels), width)] * len(self._team))
        found = [own[local] for own, local in zip(self._variables, near, strict=True)]
        return np.unique(np.concatenate([members, *found])).astype(np.int32)

    def pool(self, members: Indices, part: Part, stored: bool) -> Point:
        gram = self.gram.stored(members) if stored else self.gram.subset(members)
        return NativePoint(part.problem, gram, part.beta, part.gradient)

    def in_float64(self) -> ClusterPoint:
        return ClusterPoint(self.problem, self.gram.in_float64(), self.beta, None)

    def collect(self) -> Part:
        gradient = np.empty(len(self.problem))
        for own, values in zip(self._variables, self._ask("collect", [()] * len(self._team)), strict=True):
            gradient[own] = values
        return Part(self.problem, self.beta, gradient)
