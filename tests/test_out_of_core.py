"""Linear machines over rows that are read in chunks: the same optimum as in memory, certificates, checkpoints and failures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from maxmargin import LinearOneClassSVM, LinearSVC, LinearSVR
from maxmargin.estimators import chunks
from maxmargin.estimators.chunks import MatrixInChunks
from maxmargin.formulations import BalanceInParts, LinearProblem
from maxmargin.io import DataFileError, open_rows
from maxmargin.solution import Status

N, D = 3000, 12


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.standard_normal((N, D)) * (random.random((N, D)) < 0.4)
    scores = X @ random.standard_normal(D) + 0.5 * random.standard_normal(N) + 0.4
    return X, scores


class Parts:
    """A re-iterable source of chunks."""

    def __init__(self, X, y, weights=None, height=700):
        self.parts = [slice(a, a + height) for a in range(0, X.shape[0], height)]
        self.X, self.y, self.weights, self.passes, self.fails_in = X, y, weights, 0, None

    def __iter__(self):
        self.passes += 1
        for k, part in enumerate(self.parts):
            if k == 2 and self.passes == self.fails_in:
                raise OSError("the disk is gone")
            yield (self.X[part], self.y[part]) + (() if self.weights is None else (self.weights[part],))


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "BYTES_OF_CHUNK", 40_000)
    monkeypatch.setattr(chunks, "RUNS_OF_CHUNK", 16)


MACHINES = {
    "hinge": LinearSVC(loss="hinge"),
    "squared hinge": LinearSVC(),
    "tube": LinearSVR(epsilon=0.3),
    "squared tube": LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.3),
}


def targets_of(machine, scores):
    return (scores > 0).astype(int) if isinstance(machine, LinearSVC) else scores


@pytest.mark.parametrize("intercept", [True, False, "regularized"])
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_newton_has_the_optimum_of_the_fit_in_memory(data, name, intercept, layout):
    X, scores = data
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    machine = MACHINES[name].set_params(fit_intercept=intercept, gap_tol=1e-5)
    y = targets_of(machine, scores)
    plain = type(machine)(**machine.get_params()).fit(X, y, weights)
    machine.fit(Parts(layout(X), y, weights))
    assert machine.solver_ == "newton"
    assert machine.status_ is Status.GAP_REACHED
    assert machine.certificate_.holds(1e-5)
    assert machine.certificate_.feasible
    assert machine.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-5)
    np.testing.assert_allclose(machine.coef_, plain.coef_, atol=1e-2)


@pytest.mark.parametrize("intercept", [True, False, "regularized"])
@pytest.mark.parametrize("name", MACHINES)
def test_descent_has_the_optimum_of_the_fit_in_memory(data, name, intercept, tmp_path, small_chunks):
    X, scores = data
    machine = MACHINES[name].set_params(fit_intercept=intercept, gap_tol=1e-3, C=0.01)
    machine = type(machine)(**machine.get_params()).set_params(solver="descent")
    MACHINES[name].set_params(C=1.0)
    y = targets_of(machine, scores)
    plain = type(machine)(**machine.get_params()).set_params(solver="newton", gap_tol=1e-7).fit(X, y)
    machine.fit(sp.csr_matrix(X), y, checkpoint=tmp_path / "state")
    assert machine.certificate_.holds(1e-3)
    assert machine.certificate_.feasible
    assert machine.certificate_.dual <= plain.certificate_.primal <= machine.certificate_.primal * (1 + 1e-7)


def test_many_columns_are_trained_by_descent():
    random = np.random.default_rng(0)
    X = sp.random(600, 2000, 0.01, format="csr", random_state=0)
    y = np.where(X @ random.standard_normal(2000) > 0, "yes", "no")
    model = LinearSVC(loss="hinge").fit(Parts(X, y, height=100))
    assert model.solver_ == "descent"
    assert model.certificate_.holds(1e-3)
    assert model.score(X, y) > 0.95
    with pytest.raises(ValueError, match="solver='newton' with 2000 columns"):
        LinearSVC(solver="newton").fit(Parts(X, y))


def test_one_class(data):
    X = np.abs(data[0]) + 0.1
    plain = LinearOneClassSVM(nu=0.2, gap_tol=1e-6).fit(X)
    model = LinearOneClassSVM(nu=0.2, gap_tol=1e-6).fit([X[:1000], X[1000:]])
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(model.offset_, plain.offset_, rtol=1e-3)


def test_several_classes_and_class_weights(data):
    X, scores = data
    y = np.digitize(scores, [-0.5, 1.0])
    plain = LinearSVC(class_weight="balanced", gap_tol=1e-6).fit(X, y)
    model = LinearSVC(class_weight="balanced", gap_tol=1e-6).fit(lambda: iter(Parts(X, y)))
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-3)
    np.testing.assert_allclose(model.class_weight_, plain.class_weight_)
    assert model.certificate_.gap_terms.shape == (3, N)


def test_the_number_of_threads_changes_no_bit(data):
    X, scores = data
    y = targets_of(LinearSVC(), scores)
    models = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            models.append(LinearSVC(loss="hinge").fit(Parts(X, y)))
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


# --- where the rows lie -----------------------------------------------------------------------------------------------


def memory_map(path, array):
    mapped = np.memmap(path, dtype=array.dtype, mode="w+", shape=array.shape)
    mapped[:] = array
    mapped.flush()
    return np.memmap(path, dtype=array.dtype, mode="r", shape=array.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_a_dense_memory_map(data, tmp_path, dtype, monkeypatch, small_chunks):
    X, scores = data
    X, y = np.round(4 * X).astype(dtype), targets_of(LinearSVC(), scores)
    mapped = memory_map(tmp_path / "X", X)
    monkeypatch.setattr(chunks.validation, "free_memory", lambda: 1000)
    seen = []
    take = chunks.MatrixInChunks._take
    monkeypatch.setattr(chunks.MatrixInChunks, "_take", lambda self, runs: seen.append(runs) or take(self, runs))
    model = LinearSVC(gap_tol=1e-6).fit(mapped, y)
    assert len(seen) > 3
    plain = LinearSVC(gap_tol=1e-6).fit(X.astype(np.float64), y)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)


def test_a_memory_map_that_fits_is_read_where_it_is(data, tmp_path, monkeypatch):
    X, scores = data
    mapped, y = memory_map(tmp_path / "X", X), targets_of(LinearSVC(), scores)
    monkeypatch.setattr(chunks.MatrixInChunks, "_take", None)
    np.testing.assert_array_equal(LinearSVC().fit(mapped, y).coef_, LinearSVC().fit(X, y).coef_)


def test_a_sparse_matrix_on_memory_maps(data, tmp_path, monkeypatch, small_chunks):
    X, scores = data
    y, csr = targets_of(LinearSVC(), scores), sp.csr_array(X)
    plain = LinearSVC(gap_tol=1e-6).fit(csr, y)
    for name in ("data", "indices", "indptr"):
        setattr(csr, name, memory_map(tmp_path / name, getattr(csr, name)))
    monkeypatch.setattr(chunks.validation, "free_memory", lambda: 1000)
    model = LinearSVC(gap_tol=1e-6).fit(csr, y)
    assert model.solver_reason_.endswith("one pass over the rows")
    assert "read in chunks" in model.solver_reason_
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("cached", [False, True])
def test_libsvm_files(data, tmp_path, cached, monkeypatch):
    X, scores = data
    y = targets_of(LinearSVC(), scores)
    folder = tmp_path / "shards"
    folder.mkdir()
    for k in range(3):
        rows = range(1000 * k, 1000 * k + 1000)
        lines = (f"{y[i]} " + " ".join(f"{j + 1}:{float(X[i, j])!r}" for j in np.flatnonzero(X[i])) for i in rows)
        (folder / f"part-{k}.svm").write_text("# a comment\n" + "\n".join(lines))
    monkeypatch.setattr("maxmargin.io.rows.BYTES_OF_PART", 20_000)
    source = open_rows(folder, cache=tmp_path / "cache" if cached else None)
    assert sum(part.shape[0] for part, _ in source) == N
    model = LinearSVC(gap_tol=1e-6).fit(source)
    assert model.certificate_.primal == pytest.approx(LinearSVC(gap_tol=1e-6).fit(X, y).certificate_.primal, rel=1e-5)
    if cached:  # the copy is used again, and made anew when a file changes
        stamp = (tmp_path / "cache" / "data.bin").stat().st_mtime_ns
        LinearSVC().fit(open_rows(folder, cache=tmp_path / "cache"))
        assert (tmp_path / "cache" / "data.bin").stat().st_mtime_ns == stamp
        (folder / "part-0.svm").write_text("1 1:2\n0 2:1\n")
        assert LinearSVC().fit(open_rows(folder, cache=tmp_path / "cache")).certificate_.gap_terms.shape == (2002,)


def test_parquet_files(data, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    X, scores = data
    table = pandas.DataFrame(X, columns=[f"x{j}" for j in range(D)]).assign(score=scores)
    table.to_parquet(tmp_path / "rows.parquet", index=False)
    monkeypatch.setattr("maxmargin.io.rows.BYTES_OF_PART", 20_000)
    model = LinearSVR(gap_tol=1e-6).fit(open_rows(tmp_path / "rows.parquet", target="score"))
    plain = LinearSVR(gap_tol=1e-6).fit(X, scores)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)


def test_a_faulty_line_is_named_by_its_number_in_the_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:2\n" * 50 + "1 3:x\n" + "0 1:1\n")
    monkeypatch.setattr("maxmargin.io.rows.BYTES_OF_PART", 60)
    with pytest.raises(DataFileError, match="line 51"):
        LinearSVC().fit(open_rows(path))
    path.write_text("1 0:2\n0 1:1\n")
    with pytest.raises(DataFileError, match="zero_based=True"):
        LinearSVC().fit(open_rows(path))
    path.write_text(f"1 {2**31 + 5}:2\n0 1:1\n")
    with pytest.raises(DataFileError, match="is beyond 2147483647"):
        LinearSVC().fit(open_rows(path))
    with pytest.raises(DataFileError, match="no such file"):
        open_rows(tmp_path / "none.svm")


# --- checkpoints and ends before the end --------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "solver"), [("hinge", "newton"), ("squared_hinge", "newton"), ("hinge", "descent")])
def test_a_fit_goes_on_from_its_checkpoint(data, tmp_path, loss, solver, small_chunks):
    X, scores = data
    y = targets_of(LinearSVC(), scores)
    parameters = {"loss": loss, "solver": solver, "C": 0.01, "gap_tol": 1e-4}
    whole = LinearSVC(**parameters).fit(X, y, checkpoint=tmp_path / "whole")
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        LinearSVC(**parameters, max_iter=2).fit(X, y, checkpoint=tmp_path / "state")
    model = LinearSVC(**parameters).fit(X, y, checkpoint=tmp_path / "state")
    assert model.n_iter_ == whole.n_iter_ > 2
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert not (tmp_path / "state.part").exists()


def test_checkpoints_of_other_fits_are_refused(data, tmp_path):
    X, scores = data
    y, path = targets_of(LinearSVC(), scores), tmp_path / "state"
    LinearSVC().fit(X, y, checkpoint=path)
    with pytest.raises(ValueError, match=r"another fit \(C was '1.0' and is '2.0'\)"):
        LinearSVC(C=2.0).fit(X, y, checkpoint=path)
    with pytest.raises(ValueError, match=r"another fit \(n_samples was 3000 and is 2000\)"):
        LinearSVC().fit(X[:2000], y[:2000], checkpoint=path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="damaged one"):
        LinearSVC().fit(X, y, checkpoint=path)


def test_a_source_that_fails_leaves_the_model_of_the_last_whole_pass(data):
    X, scores = data
    y = targets_of(LinearSVC(), scores)
    source = Parts(X, y)
    source.fails_in = 4  # the survey is the first
    model = LinearSVC(loss="hinge", gap_tol=1e-9)
    with pytest.raises(RuntimeError, match=r"failed in pass 3: the disk is gone\. The model of pass 2 is kept"):
        model.fit(source)
    assert model.status_ is Status.SOURCE_FAILED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stopped = LinearSVC(loss="hinge", gap_tol=1e-9, max_iter=2).fit(Parts(X, y))
    np.testing.assert_array_equal(model.coef_, stopped.coef_)
    assert model.certificate_.gap == stopped.certificate_.gap
    source.fails_in = source.passes + 2  # no pass is whole: there is no model
    with pytest.raises(OSError, match="the disk is gone"):
        LinearSVC().fit(source)


def test_limits_leave_a_certified_model(data):
    X, scores = data
    y = targets_of(LinearSVC(), scores)
    with pytest.warns(ConvergenceWarning, match="max_seconds"):
        model = LinearSVC(loss="hinge", gap_tol=1e-9, max_seconds=1e-9).fit(Parts(X, y))
    assert model.status_ is Status.MAX_SECONDS
    assert np.isfinite(model.certificate_.gap)
    gaps = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        LinearSVC(loss="hinge", gap_tol=1e-9, callbacks=[lambda p: gaps.append(p.gap) or len(gaps) == 3]).fit(Parts(X, y))
    assert len(gaps) == 3


# --- bad input --------------------------------------------------------------------------------------------------------


def test_unsorted_duplicate_and_zero_entries(data):
    X, scores = data
    y, csr = targets_of(LinearSVC(), scores), sp.csr_matrix(X)
    plain = LinearSVC(gap_tol=1e-6).fit(csr, y)
    reversed_rows = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in zip(csr.indptr, csr.indptr[1:], strict=False)])
    halves = np.repeat(csr.data[reversed_rows] / 2, 2)
    columns = np.repeat(csr.indices[reversed_rows], 2)
    halves[:2] = [0.0, 2 * halves[0]]  # an explicit zero
    odd = sp.csr_matrix((halves, columns, 2 * csr.indptr), shape=csr.shape)
    model = LinearSVC(gap_tol=1e-6).fit(Parts(odd, y))
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)


def test_columns_that_a_chunk_does_not_reach():
    parts = [(sp.csr_matrix([[1.0]]), [1]), (sp.csr_matrix([[0.0, 0.0, 1.0]]), [0])]
    model = LinearSVC().fit(parts)
    assert model.coef_.shape == (1, 3)
    assert model.coef_[0, 1] == 0.0
    with pytest.raises(ValueError, match="X has 4 features"):
        model.predict(np.ones((1, 4)))


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ((part for part in [(np.eye(2), [0, 1])]), "a generator, which can be read once only"),
        ([(np.eye(2), [0, 1]), (np.eye(3), [0, 1, 1])], "the chunk at row 2 has 3 columns, the rows before it 2"),
        ([(np.eye(2), [0, 1]), (np.full((1, 2), np.nan), [1])], "contains NaN.*counted from row 2"),
        ([(np.eye(2), [0, 1, 1])], r"targets of shape \(3,\)"),
        ([(np.eye(2),)], "has no targets"),
        ([(np.eye(2), [0, 1], None, None)], "a tuple of 4"),
        (lambda: iter(()), "at least one is required"),
        ([(np.eye(2), [1, 1])], "greater than one"),
        ([(sp.csr_array(([1.0], ([0], [2**31 + 1])), shape=(1, 2**31 + 2)), [1])], "2147483650 columns: at most"),
    ],
)
def test_bad_chunks(source, error):
    with pytest.raises((ValueError, TypeError), match=error):
        LinearSVC().fit(source)


def test_sources_that_change_between_passes(data):
    X, scores = data
    y = targets_of(LinearSVC(), scores)
    parts = [(X, y)]

    def shrinking():
        yield from parts
        parts[:] = [(X[:-1], y[:-1])]

    with pytest.raises(ValueError, match="a pass gave 2999 rows, fewer than the first, which gave 3000"):
        LinearSVC().fit(shrinking)


def test_what_cannot_be_done_in_chunks(data):
    X, scores = data
    source = Parts(X, targets_of(LinearSVC(), scores))
    with pytest.raises(ValueError, match="penalty='l1' needs the columns"):
        LinearSVC(penalty="l1").fit(source)
    with pytest.raises(ValueError, match="use checkpoint=path"):
        LinearSVC(warm_start=True).fit(source)
    with pytest.raises(ValueError, match="y must be None"):
        LinearSVC().fit(source, scores)


@pytest.mark.parametrize("excess", [-3.0, -0.1, 0.0, 0.2, 40.0])
def test_balance_in_parts(excess):
    random = np.random.default_rng(0)
    sides = random.choice([-1.0, 1.0], 50)
    beta = sides * np.clip(random.random(50) * 1.6 - 0.3, 0, 1)
    problem = LinearProblem(sides, sides, total=float(beta.sum()) - excess)
    parts = [slice(0, 20), slice(20, 50)]
    first, second = (BalanceInParts.of(problem.part(part), beta[part]) for part in parts)
    repair = first.plus(second).repair(problem.total)
    moved = np.concatenate([repair.of(problem.part(part), beta[part]) for part in parts])
    np.testing.assert_allclose(moved, problem.balanced(beta), atol=1e-14)
    lower, upper = problem.box
    assert (lower <= moved).all()
    assert (moved <= upper).all()
    assert moved.sum() == pytest.approx(max(problem.total, lower.sum()), abs=1e-12)  # the last excess cannot be repaired


def test_entries_beyond_the_reach_of_32_bits():
    """Rows that lie behind two billion entries are found; those entries are one number each, which takes no memory."""
    before, n_columns = 2**31 + 5, 7
    starts = np.array([0, before, before + 2, before + 3], dtype=np.int64)
    X = sp.csr_array((3, n_columns), dtype=np.float32)
    X.data, X.indices = np.broadcast_to(np.float32(2.0), before + 3), np.broadcast_to(np.int64(4), before + 3)
    X.indptr = starts
    rows, *_ = MatrixInChunks(X)._take([slice(1, 3)])
    np.testing.assert_array_equal(rows.indptr, [0, 2, 3])
    np.testing.assert_array_equal(rows.indices, [4, 4, 4])
    np.testing.assert_array_equal(rows.data, [2.0, 2.0, 2.0])
