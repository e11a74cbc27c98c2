"""Machines on a Dask cluster are those of one process: the same optimum, certified, whatever the partitions."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import GridSearchCV

from maxmargin import (
    SVC,
    SVR,
    KernelRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Status,
    audit,
)
from maxmargin.backends.base import InnerSolver
from maxmargin.cluster import gram as cluster_gram
from maxmargin.cluster import passes, piece, team
from maxmargin.cluster import rows as rows_of_cluster
from maxmargin.cluster.gram import ClusterGram
from maxmargin.cluster.kept import KeptRows, Message, MissingRowsError
from maxmargin.cluster.piece import Arrangement, Piece
from maxmargin.cluster.rows import load_partition
from maxmargin.cluster.team import Team
from maxmargin.formulations import classification_problem, make_loss
from maxmargin.io import open_rows
from maxmargin.kernels import RBF

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

N = 700


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Working sets so small that a few hundred samples need several of them, and pools."""
    monkeypatch.setattr(InnerSolver, "tile", 128)
    monkeypatch.setattr(InnerSolver, "largest_tile", 256)
    monkeypatch.setattr("maxmargin.estimators.base.SMALL", 100)


def data(n=N, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    noise = 0.3 * rng.normal(size=n)
    return X, X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + noise


def parted(X, parts):
    """A Dask array with about so many row blocks, of uneven size."""
    edges = np.linspace(0.0, 1.0, parts + 1)[1:] ** 1.5
    sizes = np.diff(np.round(edges * X.shape[0]).astype(int), prepend=0)
    if sp.issparse(X):
        starts = np.cumsum(sizes) - sizes
        blocks = [da.from_array(X[a : a + n], chunks=(n, X.shape[1]), asarray=False) for a, n in zip(starts, sizes, strict=True)]
        return da.concatenate(blocks)
    return da.from_array(X, chunks=(tuple(sizes), *X.shape[1:]))


def require_equal(one, other, X):
    """The machines have the same optimum as far as the certificates say, and the same decisions within the tolerances."""
    assert one.status_.converged
    assert other.status_.converged, str(other.status_)
    proofs = one.certificate_, other.certificate_
    slack = max(proof.gap + proof.value_error for proof in proofs)
    assert abs(proofs[0].dual - proofs[1].dual) <= slack
    assert all(proof.holds(other.gap_tol) for proof in proofs)
    name = "decision_function" if hasattr(one, "decision_function") else "predict"
    first, second = (getattr(machine, name)(X) for machine in (one, other))
    np.testing.assert_allclose(first, second, atol=0.05)


@pytest.mark.parametrize("parts", [1, 2, 4, 7])
def test_two_classes(client, parts):
    X, score = data()
    y = np.where(score > 0.0, "yes", "no")
    settings = {"C": 3.0, "tol": 1e-4, "gap_tol": 1e-6}
    here = SVC(**settings).fit(X, y)
    there = SVC(**settings).fit(parted(X, parts), parted(y, parts))
    require_equal(here, there, X)
    assert (here.predict(X) == there.predict(X)).all()
    np.testing.assert_array_equal(there.support_vectors_, X[there.support_])
    assert there.gamma_ == pytest.approx(here.gamma_, rel=1e-12)
    assert there.certificate_.gap_terms.shape == (N,)


def test_the_order_of_the_rows_does_not_matter(client):
    X, score = data()
    y, order = score > 0.0, np.random.default_rng(1).permutation(N)
    settings = {"C": 3.0, "tol": 1e-4, "gap_tol": 1e-6}
    sorted_rows = SVC(**settings).fit(parted(X, 3), parted(y, 3))
    shuffled = SVC(**settings).fit(parted(X[order], 4), parted(y[order], 4))
    require_equal(sorted_rows, shuffled, X)


@pytest.mark.parametrize(
    "machine",
    [
        SVC(C=2.0, loss="squared_hinge"),
        SVC(C=2.0, fit_intercept=False),
        SVC(C=2.0, class_weight="balanced"),
        NuSVC(nu=0.3),
        SVR(C=2.0, epsilon=0.2),
        SVR(C=2.0, loss="squared_epsilon_insensitive"),
        NuSVR(nu=0.4),
        OneClassSVM(nu=0.2),
    ],
    ids=str,
)
def test_machines(client, machine):
    X, score = data()
    y = score if isinstance(machine, SVR | NuSVR) else (score > 0.4)
    machine.set_params(gap_tol=1e-4)
    here = machine.fit(X, y)
    there = type(machine)(**machine.get_params()).fit(parted(X, 3), parted(y, 3))
    require_equal(here, there, X)


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
def test_several_classes(client, strategy):
    X, score = data()
    y = np.digitize(score, [-0.5, 0.5])
    machine = SVC(C=2.0, multi_class=strategy, gap_tol=1e-4)
    here = machine.fit(X, y)
    there = SVC(**machine.get_params()).fit(parted(X, 3), parted(y, 3))
    require_equal(here, there, X)
    assert len(there.certificate_.parts) == 3
    assert there.certificate_.gap_terms.shape == (3, N)


@pytest.mark.parametrize("gap_tol", [1e-4, 1e-9])
def test_machines_of_one_tile(client, gap_tol):
    """Each pair of classes fits into one tile, which is solved as a whole."""
    X, score = data(n=150)
    y = np.digitize(score, [-0.5, 0.5])
    settings = {"C": 2.0, "gap_tol": gap_tol}
    require_equal(SVC(**settings).fit(X, y), SVC(**settings).fit(parted(X, 3), parted(y, 3)), X)


def test_rows_do_not_travel_twice(client):
    """Support vectors that move again and again, and are summed over in the end, are sent to each worker once."""
    X, score = data(n=1500, d=40)
    there = SVC(C=3.0).fit(parted(X, 2), parted(score > 0.0, 2))
    traffic, row = there.cluster_, X.itemsize * X.shape[1]
    came = traffic.received["take"] + traffic.received.get("rows", 0)
    numbers = 30 * len(X) * len(there.trace_.gap)
    sent = sum(traffic.sent.get(verb, 0) for verb in ("move", "exact_sums_here", "exact_sums_of_mine"))
    assert row * len(there.support_) < sent <= traffic.n_workers * came + numbers
    assert came <= row * len(X) + numbers


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "laplacian", "matern32"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_kernels(client, kernel, sparse):
    X, score = data(n=400)
    X = X + 0.5  # an offset, which the samples of a linear kernel lose by centring
    y = score > 0.0
    if sparse:
        X[np.random.default_rng(2).random(X.shape) < 0.8] = 0.0
        X = sp.csr_array(X)
    machine = SVC(kernel=kernel, C=1.0, coef0=0.5 if kernel == "poly" else 0.0, gamma=0.05 if kernel == "sigmoid" else "scale")
    machine.set_params(gap_tol=1e-4)
    here = machine.fit(X, y)
    there = SVC(**machine.get_params()).fit(parted(X, 3), parted(y, 3))
    assert sp.issparse(there.support_vectors_) == sparse
    if here.status_.converged:
        require_equal(here, there, X)
    else:  # the sigmoid is no kernel: both say so
        assert there.status_ is here.status_


def test_weights(client):
    X, score = data()
    y = score > 0.0
    weights = np.random.default_rng(3).integers(0, 4, N).astype(float)
    settings = {"C": 1.0, "gap_tol": 1e-4}
    here = SVC(**settings).fit(X, y, weights)
    there = SVC(**settings).fit(parted(X, 3), parted(y, 3), parted(weights, 3))
    require_equal(here, there, X)
    assert there.gamma_ == pytest.approx(here.gamma_, rel=1e-12)


def test_a_partition_without_rows_and_float32(client):
    X, score = data()
    X, y = X.astype(np.float32), score > 0.0
    blocks = [da.from_array(X[rows], chunks=(-1, 5)) for rows in np.split(np.arange(N), [0, 300, 300, 301])]
    there = SVC(C=2.0).fit(da.concatenate(blocks), y)
    require_equal(SVC(C=2.0).fit(X, y), there, X)
    assert there.support_vectors_.dtype == np.float32


def test_data_frames_keep_the_names_of_their_columns(client):
    pd = pytest.importorskip("pandas")
    X, score = data()
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=score > 0.0)
    collection = dd.from_pandas(frame, npartitions=3)
    there = SVC(C=2.0).fit(collection[list("abcde")], collection["y"])
    here = SVC(C=2.0).fit(frame[list("abcde")], frame["y"])
    require_equal(here, there, frame[list("abcde")])
    assert list(there.feature_names_in_) == list("abcde")


SHARDS = [0, 150, 150, 151]  # where 300 rows are cut: the first file and the third have none, the fourth has one


def libsvm_shards(folder, X, y):
    for k, rows in enumerate(np.split(np.arange(len(y)), SHARDS)):
        (folder / f"part{k}.svm").touch()
        if len(rows):
            dump_svmlight_file(X[rows], y[rows], str(folder / f"part{k}.svm"), zero_based=False)
    return sp.csr_array(X)


def parquet_shards(folder, X, y):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for k, rows in enumerate(np.split(np.arange(len(y)), SHARDS)):
        pd.DataFrame(X[rows], columns=list("abcde")).assign(label=y[rows]).to_parquet(folder / f"part{k}.parquet")
    return X


@pytest.mark.parametrize("shards", [libsvm_shards, parquet_shards])
@pytest.mark.parametrize(
    "machine", [SVC(C=2.0, gamma=0.3), SVR(gamma=0.3), OneClassSVM(gamma=0.3), LinearSVC(), LinearSVR()], ids=str
)
def test_files_are_read_by_the_workers(client, tmp_path, machine, shards):
    """A folder of files of uneven size: a partition for each. The last columns of LIBSVM files differ."""
    X, score = data(n=300)
    X[np.random.default_rng(2).random(X.shape) < 0.5] = 0.0
    X[:150, 4] = 0.0
    y = np.sign(score)
    X, files = shards(tmp_path, X, y), open_rows(tmp_path)
    machine.set_params(gap_tol=1e-4)
    here = type(machine)(**machine.get_params()).fit(X, y)
    there = machine.fit(files)
    require_equal(here, there, X)
    assert there.cluster_.n_partitions == len(SHARDS) + 1
    np.testing.assert_allclose(there.predict(files).compute(), there.predict(X), atol=1e-12)


@pytest.fixture
def no_client(monkeypatch):
    def nothing():
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", nothing)


def test_files_need_no_cluster(no_client, tmp_path):
    X, score = data(n=300)
    y = np.sign(score)
    X, machine = libsvm_shards(tmp_path, X, y), SVC(C=2.0, gamma=0.3)
    require_equal(SVC(**machine.get_params()).fit(X, y), machine.fit(open_rows(tmp_path)), X)
    assert not hasattr(machine, "cluster_")
    with pytest.raises(ValueError, match="y must be None where X is files: they have labels"):
        machine.fit(open_rows(tmp_path), y)


@pytest.mark.parametrize("machine", [SVC(), SVR(), LinearSVC(), LinearSVR()], ids=str)
def test_rows_without_targets_are_refused(client, machine):
    X, _ = data(n=50)
    for rows in (X, parted(X, 2)):
        with pytest.raises(ValueError, match=rf"{type(machine).__name__} requires y to be passed, but the target y is None"):
            machine.fit(rows)


@pytest.mark.parametrize("machine", [SVC(gamma=0.3), LinearSVC()], ids=str)
def test_a_file_that_cannot_be_read_is_named(client, tmp_path, machine):
    X, score = data(n=300)
    libsvm_shards(tmp_path, X, np.sign(score))
    (tmp_path / "part3.svm").write_text("1 1:2\n1 1:two\n")
    with pytest.raises(RuntimeError, match=r"^partition 3 of X cannot be computed: DataFileError: .*part3\.svm, line 2: "):
        machine.fit(open_rows(tmp_path))


def test_a_kernel_function_of_the_user(client):
    X, score = data(n=400)
    y = score > 0.0
    here = SVC(kernel=_quadratic).fit(X, y)
    require_equal(here, SVC(kernel=_quadratic).fit(parted(X, 3), parted(y, 3)), X)


def _quadratic(A, B):
    return (A @ B.T + 1.0) ** 2 / 10.0


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_messages_of_limited_size(client, monkeypatch, kernel):
    """Sums over support vectors that are sent in several messages, and at queries that are."""
    X, score = data()
    y = score > 0.0
    monkeypatch.setattr(rows_of_cluster, "BYTES_OF_MESSAGE", 50 * 8 * 5)
    monkeypatch.setattr(piece, "BYTES_AT_ONCE", 20 * 8 * 5)
    there = SVC(C=2.0, kernel=kernel, gap_tol=1e-5).fit(parted(X + 1.0, 3), y)
    require_equal(SVC(C=2.0, kernel=kernel, gap_tol=1e-5).fit(X + 1.0, y), there, X + 1.0)


def test_rows_are_not_kept_beyond_the_budget(client):
    X, score = data()
    y = score > 0.0
    there = SVC(C=2.0, cache_size=0.002).fit(parted(X, 3), parted(y, 3))
    require_equal(SVC(C=2.0).fit(X, y), there, X)


def test_a_working_set_is_no_larger_than_there_is_memory_for_its_rows(client, monkeypatch):
    X, score = data(n=3 * N)
    y, sizes, subset = score > 0.0, [], ClusterGram.subset
    monkeypatch.setattr(cluster_gram, "FEWEST_MEMBERS", 50)
    monkeypatch.setattr(ClusterGram, "subset", lambda gram, members: sizes.append(len(members)) or subset(gram, members))
    there = SVC(C=2.0, cache_size=100 * 8 * 5 / 1e6).fit(parted(X, 3), parted(y, 3))
    require_equal(SVC(C=2.0).fit(X, y), there, X)
    assert 0 < max(sizes) <= 102  # the most violating pair besides


def test_a_piece_that_dask_writes_to_disk_is_the_same_afterwards():
    X, score = data(n=60)
    problem = classification_problem(np.sign(score), np.ones(60), make_loss("hinge"))
    rows, members = np.arange(60, dtype=np.int32), np.arange(5, dtype=np.int32)
    piece = load_partition(X, 0, "rows")
    piece.place("first", Arrangement(RBF(gamma=0.5), np.dtype(np.float32), None, rows), problem, None, None)
    change = 0.1 * problem.upper[None, :5]
    copy = pickle.loads(pickle.dumps(piece))
    moved = [one.move((Message(members, members, X[:5], True), change), "second", members, change[0]) for one in (piece, copy)]
    assert moved[0].sums == moved[1].sums
    assert piece.version == copy.version == "second"
    copy = pickle.loads(pickle.dumps(copy))
    again = Message(members, members[:0], X[:0], False)  # the rows are there already
    assert (
        piece.move((again, change), "third", members, change[0]).sums
        == copy.move((again, change), "third", members, change[0]).sums
    )


def test_rows_that_are_kept():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    for values in (rows, sp.csr_array(rows)):
        kept = KeptRows()
        kept.add(np.array([3, 5, 9]), values[[3, 5, 9]])
        kept.add(np.array([4, 5, 1]), values[[4, 5, 1]])  # 5 came twice
        wanted = np.array([9, 1, 5, 5, 4])
        found, expected = kept.take(wanted), values[wanted]
        np.testing.assert_array_equal(*(one.toarray() if sp.issparse(one) else one for one in (found, expected)))
        np.testing.assert_array_equal(kept.missing(np.array([1, 2, 3, 19])), [2, 19])
        kept.drop(kept.n_bytes - 1)  # the oldest chunk
        np.testing.assert_array_equal(kept.missing(np.array([1, 3, 4, 5, 9])), [3, 9])
        with pytest.raises(MissingRowsError):
            kept.take(np.array([1, 9]))


# --- linear machines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(C=2.0),
        LinearSVC(C=2.0, loss="hinge", fit_intercept="regularized", class_weight="balanced"),
        LinearSVR(C=2.0, epsilon=0.1),
        LinearSVR(C=2.0, loss="squared_epsilon_insensitive", fit_intercept=False),
        LinearOneClassSVM(nu=0.2),
    ],
    ids=str,
)
def test_linear_machines(client, machine, parts):
    X, score = data()
    weights = np.random.default_rng(3).integers(0, 4, N).astype(float)
    y = score if isinstance(machine, LinearSVR) else score > 0.4
    machine.set_params(gap_tol=1e-4)
    here = type(machine)(**machine.get_params()).fit(X, y, weights)
    there = machine.fit(parted(X, parts), parted(y, parts), parted(weights, parts))
    require_equal(here, there, X)
    assert there.solver_ == "newton"
    assert there.certificate_.gap_terms.shape == (N,)
    assert there.certificate_.gap_terms.sum() <= there.certificate_.gap * (1.0 + 1e-9)
    assert there.cluster_.rounds == there.n_passes_  # the survey is one of them


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_linear_machines_with_many_columns(client, loss, fit_intercept):
    """Blocks of duals that take steps side by side, and the best share of each step; the columns of partitions differ."""
    random = np.random.default_rng(0)
    X = sp.random_array((300, 1500), density=0.02, rng=random, format="csr")
    y = X @ random.normal(size=1500) > 0.0
    settings = {"loss": loss, "fit_intercept": fit_intercept, "solver": "descent", "C": 0.3, "gap_tol": 1e-3}
    here, there = LinearSVC(**settings).fit(X, y), LinearSVC(**settings, max_iter=300).fit(parted(X, 3), parted(y, 3))
    require_equal(here, there, X)


def test_several_classes_share_the_passes(client):
    X, score = data()
    y = np.digitize(score, [-0.5, 0.5])
    here, there = LinearSVC(gap_tol=1e-4).fit(X, y), LinearSVC(gap_tol=1e-4).fit(parted(X, 3), parted(y, 3))
    require_equal(here, there, X)
    assert there.coef_.shape == (3, 5)
    assert there.cluster_.rounds < 12


def test_linear_machines_take_frames_arrays_and_partitions_without_rows(client):
    pd = pytest.importorskip("pandas")
    X, score = data()
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=score > 0.0)
    collection = dd.from_pandas(frame, npartitions=3)
    some = collection[collection["a"] > 100.0]
    here = LinearSVC().fit(frame[list("abcde")], frame["y"])
    both = dd.concat([some, collection])
    there = LinearSVC().fit(both[list("abcde")], both["y"])
    require_equal(here, there, frame[list("abcde")])
    assert list(there.feature_names_in_) == list("abcde")
    require_equal(here, LinearSVC().fit(collection[list("abcde")], frame["y"].to_numpy()), frame[list("abcde")])
    with pytest.raises(ValueError, match=r"X has 700 rows in 3 partitions, and y has 699 values"):
        LinearSVC().fit(collection[list("abcde")], score[1:] > 0.0)


READS = []


def _noted(block):
    READS.append(len(block))
    return block


def test_a_collection_that_is_too_large_is_read_in_each_pass(client, monkeypatch):
    X, score = data()
    monkeypatch.setattr(passes, "SHARE_OF_MEMORY", 0.0)
    READS.clear()
    collection = parted(X, 2).map_blocks(_noted, dtype=float, meta=np.empty((0, 0)))
    there = LinearSVC().fit(collection, parted(score > 0.0, 2))
    require_equal(LinearSVC().fit(X, score > 0.0), there, X)
    assert len(READS) >= 2 * there.n_passes_


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        (LinearSVC(penalty="l1"), "penalty='l1' needs the columns of X: a Dask collection needs penalty='l2'"),
        (LinearSVC(multi_class="crammer_singer"), "a Dask collection needs multi_class='ovr' and probability=False"),
        (LinearSVC(warm_start=True), "warm_start=True: a Dask collection needs warm_start=False"),
    ],
    ids=str,
)
def test_what_linear_machines_do_not_do_on_a_cluster_is_said(client, machine, what):
    X, score = data(n=50)
    with pytest.raises(ValueError, match=what):
        machine.fit(parted(X, 2), score > 0.0)


# --- faults -----------------------------------------------------------------------------------------------------------


@contextmanager
def workers_in_processes(address, count):
    """Workers that nobody starts again when they are killed."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def mortal_workers():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, protocol="tcp://", dashboard_address=":0") as cluster,
        workers_in_processes(cluster.scheduler_address, 6) as processes,
        distributed.Client(cluster, set_as_default=False) as own_client,
    ):
        own_client.wait_for_workers(6)
        yield own_client, {own_client.run(os.getpid)[worker]: worker for worker in own_client.nthreads()}, processes


@contextmanager
def a_worker_killed_in(iteration, mortal_workers):
    """A client, the address of a worker, and a callback that kills this worker in the iteration."""
    own_client, addresses, processes = mortal_workers
    victim = processes.pop()

    def kill(progress):
        if progress.iteration == iteration and victim.poll() is None:
            victim.kill()
            victim.wait()

    with own_client.as_current():
        yield own_client, addresses[victim.pid], kill
    assert victim.poll() is not None


def test_a_worker_that_dies_changes_no_result(mortal_workers):
    """A process is killed in the middle of a fit: Dask computes its rows again, and the fit goes on."""
    X, score = data()
    y = score > 0.0
    with a_worker_killed_in(1, mortal_workers) as (_, _, kill):
        there = SVC(C=3.0, gap_tol=1e-5, callbacks=[kill]).fit(parted(X, 8), parted(y, 8))
    require_equal(SVC(C=3.0, gap_tol=1e-5).fit(X, y), there, X)


def test_a_worker_that_dies_with_its_answers_changes_no_result(mortal_workers, monkeypatch):
    """It is killed after it has answered, and before the answers are here."""
    X, score = data()
    y, gather, gathered = score > 0.0, Team._gather, []
    with a_worker_killed_in(1, mortal_workers) as (_, _, kill):

        def killed_before(team, futures):
            gathered.append(len(futures))
            if len(gathered) == 5:
                distributed.wait(list(futures.values()))
                kill(SimpleNamespace(iteration=1))
            return gather(team, futures)

        monkeypatch.setattr(Team, "_gather", killed_before)
        there = SVC(C=3.0, gap_tol=1e-5).fit(parted(X, 8), parted(y, 8))
    require_equal(SVC(C=3.0, gap_tol=1e-5).fit(X, y), there, X)


def test_a_worker_whose_death_the_scheduler_has_noticed_changes_no_result(mortal_workers, monkeypatch):
    """A message to a worker that the scheduler no longer knows."""
    X, score = data()
    y = score > 0.0
    monkeypatch.setattr(team, "SMALL_MESSAGE", 0)
    with a_worker_killed_in(1, mortal_workers) as (client, address, kill):

        def kill_and_wait(progress):
            kill(progress)
            while progress.iteration == 1 and address in client.scheduler_info(n_workers=-1)["workers"]:
                time.sleep(0.01)

        there = SVC(C=3.0, gap_tol=1e-5, callbacks=[kill_and_wait]).fit(parted(X, 8), parted(y, 8))
    require_equal(SVC(C=3.0, gap_tol=1e-5).fit(X, y), there, X)


def test_a_worker_that_dies_changes_no_linear_machine(mortal_workers):
    """Dask computes the rows and the duals again: the same numbers, bit for bit."""
    X, score = data()
    y, settings = score > 0.0, {"loss": "hinge", "gap_tol": 1e-5}
    with a_worker_killed_in(3, mortal_workers) as (_, _, kill):
        undisturbed = LinearSVC(**settings).fit(parted(X, 8), parted(y, 8))
        there = LinearSVC(**settings, callbacks=[kill]).fit(parted(X, 8), parted(y, 8))
    np.testing.assert_array_equal(there.coef_, undisturbed.coef_)
    np.testing.assert_array_equal(there.certificate_.gap_terms, undisturbed.certificate_.gap_terms)


def test_the_linear_machine_of_the_last_pass_is_kept_when_rows_are_lost(mortal_workers):
    X, score = data()
    with a_worker_killed_in(3, mortal_workers) as (own_client, address, kill):
        future = own_client.scatter(X, workers=[address])
        collection = da.from_delayed(dask.delayed(future), X.shape, X.dtype)
        machine = LinearSVC(loss="hinge", gap_tol=1e-6, callbacks=[kill])
        with pytest.raises(RuntimeError, match=r"failed in pass 4: partition 0 of X is lost.*The model of pass 3 is kept"):
            machine.fit(collection, score > 0.0)
    assert machine.status_ is Status.SOURCE_FAILED
    assert machine.certificate_.dual <= LinearSVC(loss="hinge").fit(X, score > 0.0).certificate_.primal
    assert machine.predict(X).shape == (N,)


def test_a_killed_worker_leaves_the_model_of_scattered_rows(mortal_workers):
    X, score = data()
    with a_worker_killed_in(2, mortal_workers) as (own_client, address, kill):
        future = own_client.scatter(X, workers=[address])
        machine = SVC(C=3.0, gap_tol=1e-6, callbacks=[kill])
        with pytest.raises(RuntimeError, match=r"^partition 0 of X is lost: .*The model that was reached is kept"):
            machine.fit(da.from_delayed(dask.delayed(future), X.shape, X.dtype), score > 0.0)
    assert 0.0 < machine.certificate_.dual <= SVC(C=3.0).fit(X, score > 0.0).certificate_.primal


def _dies(block):
    """A partition that takes all memory of a worker, whose process is then ended by the system, or by Dask."""
    os._exit(1)


@pytest.mark.parametrize("machine", [SVC(), LinearSVC()], ids=str)
def test_a_partition_that_kills_its_worker_is_named(mortal_workers, machine):
    X, score = data()
    own_client, _, _ = mortal_workers
    scheduler = own_client.cluster.scheduler
    scheduler.allowed_failures, usual = 0, scheduler.allowed_failures
    with (
        workers_in_processes(scheduler.address, 1),
        own_client.as_current(),
        pytest.raises(RuntimeError, match=r"^partition 0 of X cannot be computed: KilledWorker: "),
    ):
        machine.fit(parted(X, 1).map_blocks(_dies, dtype=float, meta=np.empty((0, 0))), parted(score > 0.0, 1))
    scheduler.allowed_failures = usual


def test_a_straggler_changes_nothing(client, monkeypatch):
    """A worker that takes much longer than the others is waited for: nothing is asked twice."""
    X, score = data()
    fits, move = [], Piece.move

    def slow(piece, *told):
        time.sleep(0.1 * (piece.number == 0))
        return move(piece, *told)

    for method in (move, slow):
        monkeypatch.setattr(Piece, "move", method)
        monkeypatch.setattr(team, "SECONDS_TO_LOOK", 0.02)
        fits.append(SVC(C=3.0).fit(parted(X, 3), parted(score > 0.0, 3)))
    np.testing.assert_array_equal(fits[0].dual_coef_, fits[1].dual_coef_)
    assert fits[0].cluster_.rounds == fits[1].cluster_.rounds
    assert fits[1].cluster_.computing["move"] >= 0.1


@pytest.mark.parametrize("machine", [SVC(C=3.0, gap_tol=1e-5), LinearSVC(gap_tol=1e-5)], ids=str)
def test_a_worker_that_joins_changes_no_result(machine):
    X, score = data()
    y = score > 0.0
    here = type(machine)(**machine.get_params()).fit(X, y)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as own_client,
    ):

        def join(progress):
            cluster.scale(2)
            own_client.wait_for_workers(2)

        there = machine.set_params(callbacks=[join]).fit(parted(X, 3), parted(y, 3))
        require_equal(here, there, X)
        assert there.fit(parted(X, 4), parted(y, 4)).cluster_.n_workers == 2


@pytest.mark.parametrize("machine", [SVC(C=3.0, gap_tol=1e-5), LinearSVC(gap_tol=1e-5)], ids=str)
def test_partitions_that_dask_writes_to_disk_change_no_result(machine):
    X, score = data()
    y, written = score > 0.0, []

    def write(dask_worker):
        return sum(dask_worker.data.evict() > 0 for _ in range(len(dask_worker.data.memory)))

    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "8GB", "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as own_client:

        def spill(progress):
            written.extend(own_client.run(write).values())

        here = type(machine)(**machine.get_params()).fit(X, y)
        there = machine.set_params(callbacks=[spill]).fit(parted(X, 3), parted(y, 3))
    require_equal(here, there, X)
    assert max(written) >= 3


def test_partitions_that_dask_writes_to_disk_while_they_change(monkeypatch):
    X, score = data()
    y, move, written = score > 0.0, Piece.move, []

    def spilled(piece, *told):
        written.append(distributed.get_worker().data.evict())
        return move(piece, *told)

    monkeypatch.setattr(Piece, "move", spilled)
    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "8GB", "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        there = SVC(C=3.0, gap_tol=1e-5).fit(parted(X, 1), y)
    require_equal(SVC(C=3.0, gap_tol=1e-5).fit(X, y), there, X)
    assert min(written) > 0


def test_partitions_that_are_lost_again_and_again_end_the_fit(client, monkeypatch):
    """A worker without memory for a partition writes it to disk before it has answered: what it has computed is lost."""
    X, score = data()
    monkeypatch.setattr(Piece, "version", property(lambda piece: "none", lambda piece, version: None), raising=False)
    with pytest.raises(RuntimeError, match=r"^partition 0 of X was lost 20 times in a row"):
        SVC(C=3.0).fit(parted(X, 2), parted(score > 0.0, 2))


def test_a_partition_that_cannot_be_read_is_named(client):
    X, score = data()

    def read(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 2:
            raise OSError("no such shard")
        return block

    broken = parted(X, 4).map_blocks(read, dtype=float)
    with pytest.raises(RuntimeError, match=r"^partition 2 of X cannot be computed: OSError: no such shard$"):
        SVC().fit(broken, score > 0.0)


def test_a_partition_that_is_not_finite_is_named(client):
    X, score = data()
    X[600, 2] = np.nan
    where = r"NaN or infinity in row \d+ of partition 3"
    with pytest.raises(RuntimeError, match=where):
        SVC().fit(parted(X, 4), score > 0.0)
    with pytest.raises(RuntimeError, match=where):
        SVC().fit(parted(sp.csr_array(X), 4), score > 0.0)


@contextmanager
def rows_that_get_lost(X, when):
    """A collection that was scattered to a worker, and a callback that ends this worker."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as own_client:
        victim = cluster.workers[0]
        future = own_client.scatter(X, workers=[victim.address])

        def lose(progress):
            if when(progress):
                own_client.sync(victim.close, executor_wait=False)

        yield da.from_delayed(dask.delayed(future), X.shape, X.dtype), lose


@pytest.mark.parametrize(
    "machine",
    [
        SVC(C=3.0, gap_tol=1e-6),
        SVC(C=3.0, kernel="poly", loss="squared_hinge"),
        NuSVC(nu=0.3, gap_tol=1e-6),
        SVR(C=3.0, gap_tol=1e-6),
        OneClassSVM(nu=0.3, gap_tol=1e-6),
    ],
    ids=str,
)
def test_the_model_that_was_reached_is_kept_when_rows_are_lost(machine):
    """Its dual value is proved: it is below each primal value."""
    X, score = data()
    y = score if isinstance(machine, SVR) else score > 0.0
    here = type(machine)(**machine.get_params()).fit(X, y)
    with rows_that_get_lost(X[:350], lambda progress: progress.iteration == 2) as (rows, lose):
        machine.set_params(callbacks=[lose])
        with pytest.raises(RuntimeError, match=r"^partition 0 of X is lost: .*\. The model that was reached is kept"):
            machine.fit(da.concatenate([rows, parted(X[350:], 2)]), y)
    proof = machine.certificate_
    assert machine.status_ is Status.SOURCE_FAILED
    assert (proof.gap, proof.primal, proof.relative_gap) == (np.inf, np.inf, np.inf)
    assert proof.feasible
    assert proof.dual <= here.certificate_.primal
    again = audit(machine, X, None if isinstance(machine, OneClassSVM) else y).certificate
    assert proof.dual == pytest.approx(again.dual, rel=1e-6)
    assert np.isfinite(machine.predict(X)).all()
    assert np.min(machine.n_iter_) > 0


def test_machines_that_were_trained_before_rows_are_lost_are_kept():
    X, score = data()
    y = np.digitize(score, [-0.5, 0.5])
    with rows_that_get_lost(X, lambda progress: progress.machine == 1 and progress.iteration == 1) as (rows, lose):
        machine = SVC(C=2.0, multi_class="ovr", callbacks=[lose])
        with pytest.raises(RuntimeError, match="The model that was reached is kept"):
            machine.fit(rows, y)
    first, second, third = machine.certificate_.parts
    assert first.holds(machine.gap_tol)
    assert second.gap == np.inf > second.dual > 0.0
    assert third.dual == 0.0 < third.gap < np.inf  # no time was left for it


def test_rows_and_model_are_lost_if_no_process_has_the_support_vectors():
    X, score = data()
    with rows_that_get_lost(X, lambda progress: progress.iteration == 2) as (rows, lose):
        machine = SVC(C=3.0, gap_tol=1e-6, cache_size=1e-3, callbacks=[lose])
        with pytest.raises(RuntimeError, match=r"^partition 0 of X is lost: .*instead of scattering them$"):
            machine.fit(rows, score > 0.0)
    assert not hasattr(machine, "dual_coef_")


def test_ctrl_c_leaves_a_certified_model(client):
    X, score = data()

    def interrupt(progress):
        if progress.iteration == 1:
            signal.raise_signal(signal.SIGINT)

    machine = SVC(C=100.0, tol=1e-6, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        machine.fit(parted(X, 3), parted(score > 0.0, 3))
    assert machine.status_ is Status.INTERRUPTED
    assert 0.0 < machine.certificate_.gap < np.inf
    assert machine.certificate_.dual <= SVC(C=100.0).fit(X, score > 0.0).certificate_.primal
    assert machine.predict(X).shape == (N,)


@pytest.mark.parametrize("machine", [SVC(), LinearSVC()], ids=str)
def test_workers_with_another_version_are_named(client, monkeypatch, machine):
    X, score = data()
    monkeypatch.setattr(type(client), "run", lambda *args, **options: {"tcp://far:1": "0.0.1", "tcp://away:2": ImportError()})
    with pytest.raises(
        RuntimeError, match=r"^the worker tcp://far:1 has maxmargin 0\.0\.1, and this process .*\(2 of 2 differ\)$"
    ):
        machine.fit(parted(X, 3), score > 0.0)


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        (SVC(kernel="precomputed"), "kernel='precomputed' with a Dask collection"),
        (SVC(C=np.inf), "C=inf with a Dask collection"),
        (SVC(multi_class="crammer_singer"), "multi_class='crammer_singer' with a Dask collection"),
        (SVC(probability=True), "probability=True with a Dask collection"),
        (SVC(backend="reference"), "backend='reference' with a Dask collection"),
        (SVC(solver="smo-simple"), "solver='smo-simple' with a Dask collection"),
        (SVC(kernel="poly", degree=2.5), r"degree=2\.5: with a Dask collection"),
    ],
    ids=str,
)
def test_what_a_cluster_does_not_do_is_said(client, machine, what):
    X, score = data(n=50)
    with pytest.raises(ValueError, match=what):
        machine.fit(parted(X, 2), score > 0.0)


def test_there_must_be_a_client(no_client):
    X, score = data(n=50)
    with pytest.raises(ValueError, match="there is no active distributed"):
        SVC().fit(parted(X, 2), score > 0.0)


def test_targets_of_another_length_are_refused(client):
    X, score = data(n=50)
    with pytest.raises(ValueError, match="X has 50 rows in 2 partitions, and y has 49 values"):
        SVC().fit(parted(X, 2), score[1:] > 0.0)


# --- use --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("machine", "methods"),
    [
        (SVC(decision_function_shape="ovo"), ("predict", "decision_function")),
        (NuSVC(nu=0.2), ("predict", "decision_function")),
        (SVR(), ("predict",)),
        (OneClassSVM(), ("predict", "decision_function", "score_samples")),
        (LinearSVC(), ("predict", "decision_function")),
        (LinearSVR(), ("predict",)),
    ],
    ids=str,
)
def test_answers_about_a_collection_are_lazy(machine, methods, sparse):
    """No client is needed: Dask's own scheduler computes them."""
    X, score = data(n=200)
    X = sp.csr_array(X) if sparse else X
    y = score if isinstance(machine, SVR | LinearSVR) else np.digitize(score, [-0.5, 0.5])
    machine.fit(X, y)
    for method in methods:
        lazy = getattr(machine, method)(parted(X, 3))
        assert dask.is_dask_collection(lazy)
        here = getattr(machine, method)(X)
        assert lazy.shape == here.shape
        np.testing.assert_allclose(lazy.compute(scheduler="threads"), here, atol=1e-12)
    if hasattr(machine, "score"):
        assert machine.score(parted(X, 3), parted(y, 3)) == pytest.approx(machine.score(X, y))


def test_answers_about_a_data_frame_and_a_partition_without_rows():
    pd = pytest.importorskip("pandas")
    X, score = data(n=200)
    frame = pd.DataFrame(X, columns=list("abcde"))
    machine = SVC().fit(frame, np.where(score > 0.0, "yes", "no"))
    collection = dd.from_pandas(frame, npartitions=3)
    lazy = machine.predict(collection[collection["a"] > 0.5])
    np.testing.assert_array_equal(lazy.compute(), machine.predict(frame[frame["a"] > 0.5]))
    nothing = machine.predict(collection[collection["a"] > 100.0])
    assert nothing.compute().shape == (0,)


def test_an_estimator_that_does_not_train_on_a_cluster_says_so():
    X, score = data(n=50)
    with pytest.raises(
        ValueError, match=r"X is a Dask collection: this method of KernelRegressor must get an array \(X\.compute\(\)\)"
    ):
        KernelRegressor().fit(parted(X, 2), score)


def test_model_selection_on_top(client):
    """scikit-learn's search over arrays, with Dask as the backend of joblib, and over a collection."""
    joblib = pytest.importorskip("joblib")
    X, score = data(n=200)
    grid = {"C": [0.1, 1.0]}
    here = GridSearchCV(SVC(), grid, cv=2).fit(X, score > 0.0)
    with joblib.parallel_backend("dask"):
        there = GridSearchCV(SVC(), grid, cv=2).fit(X, score > 0.0)
    np.testing.assert_allclose(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"])
    for machine in (SVC(), LinearSVC()):
        here = GridSearchCV(machine, grid, cv=2).fit(X, score > 0.0)
        there = GridSearchCV(machine, grid, cv=2, error_score="raise").fit(parted(X, 3), parted(score > 0.0, 3))
        assert there.best_estimator_.cluster_.n_partitions == 3
        np.testing.assert_allclose(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"], atol=0.011)


# --- sight ------------------------------------------------------------------------------------------------------------


def test_what_travels(client):
    """Working sets, summaries and changes travel: no round brings the rows, nor a gradient, here as a whole."""
    X, score = data(n=3000, d=20)
    y = score > 0.0
    seen = []
    there = SVC(C=0.5, callbacks=[seen.append]).fit(parted(X, 2), parted(y, 2))
    traffic = there.cluster_
    assert traffic.n_partitions == 2
    assert traffic.n_workers == 2
    assert 0 < seen[0].bytes_moved <= seen[-1].bytes_moved <= traffic.bytes
    rows = X.itemsize * X.shape[1]
    fetched = traffic.received["rows"] + traffic.received["take"]
    assert fetched < 1.1 * rows * (len(there.support_) + 1500)  # support vectors, and others that were in a working set
    assert traffic.received["collect"] == 8 * len(X)  # once, at the end
    assert traffic.received["move"] < 20_000 * len(there.trace_.gap)
    where = traffic.summary(there.fit_seconds_)
    assert min(where.values()) >= 0.0
    assert sum(where.values()) == pytest.approx(there.fit_seconds_)
    assert not hasattr(there.fit(X, y), "cluster_")


def test_the_progress_bar_shows_what_was_moved(client, capsys):
    X, score = data()
    SVC(verbose=True).fit(parted(X, 2), parted(score > 0.0, 2))
    assert " MB moved" in capsys.readouterr().err
