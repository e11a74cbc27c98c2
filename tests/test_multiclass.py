"""Several classes: what the machines of each strategy say together, what they share, and classes that are not there."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import make_blobs
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score

from maxmargin import SVC
from maxmargin.backends import InnerSolver, NativeBackend, ReferenceBackend
from maxmargin.backends.native import gram as native_gram
from maxmargin.gram import Gram, RowCache
from maxmargin.multiclass import STRATEGIES, one_vs_rest_scores, votes
from maxmargin.solvers import crammer_singer
from tests import oracle

Matrix = NDArray[np.float64]


def clouds(n: int = 120, n_classes: int = 4, seed: int = 3) -> tuple[Matrix, NDArray[np.int64], Matrix]:
    """Overlapping clouds, and queries elsewhere."""
    X, y = make_blobs(n, 2, centers=n_classes, cluster_std=1.5, center_box=(-3, 3), random_state=seed)
    return X, y, np.random.default_rng(seed).uniform(-5, 5, size=(300, 2))


def fit(strategy: str, X: Any, y: Any, weight: Any = None, **parameters: Any) -> SVC:
    return SVC(**{"gamma": 0.5, "tol": 1e-6, "multi_class": strategy} | parameters).fit(X, y, weight)


# --- decisions, votes, predictions ------------------------------------------------------------------------------------


def test_one_vs_one_is_a_machine_for_each_pair_and_a_vote():
    X, y, queries = clouds()
    model = fit("ovo", X, y, decision_function_shape="ovo")
    decisions = model.decision_function(queries)
    counts = np.zeros((len(queries), 4))
    for column, (i, j) in enumerate(combinations(range(4), 2)):
        pair = np.isin(y, (i, j))
        binary = fit("ovo", X[pair], y[pair])
        np.testing.assert_allclose(decisions[:, column], -binary.decision_function(queries), atol=1e-4)
        counts[np.arange(len(queries)), np.where(decisions[:, column] > 0, i, j)] += 1
    np.testing.assert_array_equal(model.predict(queries), counts.argmax(axis=1))
    theirs = svm.SVC(gamma=0.5, tol=1e-6, decision_function_shape="ovo").fit(X, y)
    np.testing.assert_allclose(decisions, theirs.decision_function(queries), atol=1e-4)
    np.testing.assert_array_equal(model.predict(queries), theirs.predict(queries))


def test_scores_of_one_vs_one_order_the_classes_by_votes_and_then_by_decisions():
    X, y, queries = clouds()
    model = fit("ovo", X, y, decision_function_shape="ovo")
    decisions = model.decision_function(queries)
    scores = model.set_params(decision_function_shape="ovr").decision_function(queries)
    np.testing.assert_array_equal(scores, one_vs_rest_scores(decisions, 4))
    counts, sums = np.zeros((len(queries), 4)), np.zeros((len(queries), 4))
    for column, (i, j) in enumerate(combinations(range(4), 2)):
        counts[np.arange(len(queries)), np.where(decisions[:, column] > 0, i, j)] += 1
        sums[:, i] += decisions[:, column]
        sums[:, j] -= decisions[:, column]
    np.testing.assert_array_equal(np.round(scores), counts)
    for one, other in combinations(range(4), 2):
        tie = counts[:, one] == counts[:, other]
        np.testing.assert_array_equal((scores[:, one] > scores[:, other])[tie], (sums[:, one] > sums[:, other])[tie])
    best = counts == counts.max(axis=1, keepdims=True)
    assert (best.sum(axis=1) > 1).any()  # there are ties to break
    assert best[np.arange(len(queries)), model.predict(queries)].all()
    np.testing.assert_array_equal(model.predict(queries), votes(decisions, 4))
    np.testing.assert_array_equal(model.set_params(break_ties=True).predict(queries), scores.argmax(axis=1))


def test_one_vs_rest_is_a_machine_for_each_class_and_the_highest_decision():
    X, y, queries = clouds()
    model = fit("ovr", X, y)
    assert model.dual_coef_.shape == (4, len(model.support_))
    assert model.intercept_.shape == model.n_iter_.shape == model.margin_.shape == (4,)
    decisions = model.decision_function(queries)
    assert decisions.shape == (len(queries), 4)
    for c in range(4):
        np.testing.assert_allclose(decisions[:, c], fit("ovo", X, y == c).decision_function(queries), atol=1e-4)
    np.testing.assert_array_equal(model.predict(queries), decisions.argmax(axis=1))


def test_crammer_and_singer_have_a_score_for_each_class_and_the_highest_is_predicted():
    X, y, queries = clouds()
    model = fit("crammer_singer", X, y)
    scores = model.decision_function(queries)
    assert scores.shape == (len(queries), 4)
    assert model.dual_coef_.shape == (4, len(model.support_))
    np.testing.assert_allclose(scores, model.kernel_.block(queries, X[model.support_]) @ model.dual_coef_.T, atol=1e-9)
    np.testing.assert_allclose(scores.sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_array_equal(model.predict(queries), scores.argmax(axis=1))
    assert not model.intercept_.any()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_every_strategy_keeps(strategy):
    X, y, queries = clouds()
    names = np.array(["d", "a", "c", "b"])
    for shuffled in (np.arange(len(y)), np.random.default_rng(0).permutation(len(y))):
        model = fit(strategy, X[shuffled], names[y][shuffled], kernel="linear")
        assert model.classes_.tolist() == ["a", "b", "c", "d"]
        assert model.n_support_.sum() == len(model.support_) == model.dual_coef_.shape[1]
        own = np.searchsorted(model.classes_, names[y][shuffled][model.support_])
        np.testing.assert_array_equal(own, np.sort(own))  # class by class
        np.testing.assert_array_equal(np.bincount(own, minlength=4), model.n_support_)
        np.testing.assert_array_equal(model.support_vectors_, X[shuffled][model.support_])
        pairs = model.set_params(decision_function_shape="ovo").decision_function(queries)
        np.testing.assert_allclose(pairs, queries @ model.coef_.T + model.intercept_, atol=1e-9)
        assert set(model.predict(queries)) <= set(names)
        assert model.certificate_.gap_terms.shape[-1] == len(y)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_classes_have_one_decision_each_and_its_sign_is_the_class(strategy):
    X, y, queries = clouds(60, 2)
    model = fit(strategy, X, y)
    decisions = model.decision_function(queries)
    assert decisions.shape == (len(queries),)
    assert model.dual_coef_.shape[0] == len(model.intercept_) == 1
    np.testing.assert_array_equal(model.predict(queries), (decisions > 0).astype(int))


# --- what the machines share ------------------------------------------------------------------------------------------


@pytest.fixture
def small_tiles(monkeypatch):
    """Working sets much smaller than the data, so that kernel rows are needed, and rows that are worth keeping."""
    monkeypatch.setattr(InnerSolver, "tile", 24)
    monkeypatch.setattr("maxmargin.solvers.block_smo.MOST_POLISHED", 24)
    monkeypatch.setattr(InnerSolver, "largest_tile", 0)
    monkeypatch.setattr(crammer_singer, "SMALLEST", 24)
    monkeypatch.setattr(crammer_singer, "LARGEST", 24)
    monkeypatch.setattr(native_gram, "CHEAP_ENTRY", 0)


class Count:
    """Kernel entries of rows that a solver asked for, of every kernel matrix made while it counts; proofs compute their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.matrices: list[Any] = []
        self._by_proofs = 0
        make, prove = NativeBackend.gram, native_gram.NativeGram.exact_sums

        def remember(backend: NativeBackend, *arguments: Any) -> Gram:
            self.matrices.append(make(backend, *arguments))
            return self.matrices[-1]

        def set_apart(gram: Any, *arguments: Any) -> Matrix:
            before = gram.compiled.entries_computed
            sums = prove(gram, *arguments)
            self._by_proofs += gram.compiled.entries_computed - before
            return sums

        monkeypatch.setattr(NativeBackend, "gram", remember)
        monkeypatch.setattr(native_gram.NativeGram, "exact_sums", set_apart)

    def read(self) -> int:
        """The number, which starts again."""
        entries = sum(matrix.compiled.entries_computed for matrix in self.matrices) - self._by_proofs
        self._by_proofs = 0
        self.matrices.clear()
        return entries


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_kernel_row_is_computed_once_for_all_machines(strategy, small_tiles, monkeypatch):
    X, y, _ = clouds()
    count = Count(monkeypatch)
    assert fit(strategy, X, y, tol=1e-3).status_.converged
    assert len(count.matrices) == 1
    shared = count.read()
    assert 0 < shared <= len(X) ** 2
    if strategy == "crammer_singer":  # it is one machine
        return
    everyone = np.ones(len(y), dtype=bool)
    alone = (
        [(np.isin(y, pair), y) for pair in combinations(range(4), 2)]
        if strategy == "ovo"
        else [(everyone, y == c) for c in range(4)]
    )
    for part, own in alone:
        fit("ovo", X[part], own[part], tol=1e-3)
    assert len(count.matrices) == len(alone)
    assert shared < 0.8 * count.read()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_of_a_callable_kernel_are_computed_once_for_all_machines(strategy, small_tiles, monkeypatch):
    computed: list[int] = []
    put = RowCache.put

    def remember(self: RowCache, row: int, row_values: Any) -> None:
        computed.append(row)
        put(self, row, row_values)

    monkeypatch.setattr(RowCache, "put", remember)
    X, y, _ = clouds(80, 3)
    kernel = fit(strategy, X, y).kernel_
    for backend in (NativeBackend.name, ReferenceBackend.name):
        computed.clear()
        fit(strategy, X, y, kernel=kernel.block, tol=1e-3, backend=backend)
        assert len(computed) == len(set(computed))
        assert computed


# --- classes that are not there ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_class_that_is_missing_from_a_fold(strategy):
    X, y, _ = clouds(100, 3)
    order = np.argsort(y != 2, kind="stable")  # class 2 first ...
    keep = np.concatenate([order[:4], order[(y[order] != 2)]])  # ... and only four of them, all in the first fold
    X, y = X[keep], y[keep]
    folds = KFold(5)
    assert min(len(np.unique(y[train])) for train, _ in folds.split(X)) == 2
    model = SVC(multi_class=strategy, gamma=0.5)
    scores = cross_val_score(model, X, y, cv=folds)
    assert np.isfinite(scores).all()
    predicted = cross_val_predict(model, X, y, cv=folds)
    first = next(folds.split(X))[1]
    assert not (predicted[first] == 2).any()
    assert scores[0] == pytest.approx(np.mean(predicted[first] == y[first]))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_model_predicts_only_classes_it_has_seen(strategy):
    X, y, queries = clouds(150, 5)
    seen = ~np.isin(y, (1, 3))
    model = fit(strategy, X[seen], y[seen])
    assert model.classes_.tolist() == [0, 2, 4]
    assert set(model.predict(queries)) == {0, 2, 4}
    assert model.decision_function(queries).shape == (len(queries), 3)


@pytest.mark.parametrize("missing", [0, 2, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_class_without_weight_is_as_good_as_not_there(strategy, missing):
    X, y, queries = clouds(120, 4)
    weight = np.where(y == missing, 0.0, 1.0 + np.arange(len(y)) % 2)
    light = fit(strategy, X, y, weight)
    assert light.classes_.tolist() == [0, 1, 2, 3]
    kept = weight > 0
    without = fit(strategy, X[kept], y[kept], weight[kept])
    np.testing.assert_array_equal(light.predict(queries), without.predict(queries))
    K = oracle.kernel_of(light, X)
    assert fit(strategy, K, y, weight, kernel="precomputed").predict(np.zeros((1, len(y))))[0] != missing
    assert not (y[light.support_] == missing).any()
    assert light.certificate_.holds(1e-3)
    if strategy != "ovo":
        others = np.arange(4) != missing
        np.testing.assert_allclose(light.decision_function(queries)[:, others], without.decision_function(queries), atol=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weight_in_two_classes_of_four(strategy):
    X, y, queries = clouds(120, 4)
    pair = np.isin(y, (1, 2))
    light = fit(strategy, X, y, pair.astype(float))
    assert set(light.predict(queries)) == {1, 2}
    if strategy != "crammer_singer":  # which has no intercept, and half the decision
        binary = fit(strategy, X[pair], y[pair])
        np.testing.assert_array_equal(light.predict(queries), binary.predict(queries))
    with pytest.raises(ValueError, match="belong to the same class"):
        fit(strategy, X, y, (y == 1).astype(float))
