"""A fit can be watched, limited and interrupted; it leaves threads, signals and settings as it found them."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.fixes import parse_version
from threadpoolctl import ThreadpoolController

from maxmargin import SVC, Status
from maxmargin.backends import make_backend
from maxmargin.backends.base import InnerSolver
from maxmargin.callbacks import Progress, ProgressBar
from maxmargin.control import Control

LIVENESS = 30.0  # seconds: a limit that only a hang exceeds

#: A problem that no machine solves in a second: overlapping classes at a large C.
HARD = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from sklearn.datasets import make_classification
X, y = make_classification(8000, 10, n_informative=5, flip_y=0.4, class_sep=0.3, random_state=0)
C = 1e3
"""


def hard() -> tuple[Any, Any, float]:
    names: dict[str, Any] = {}
    exec(HARD, names)
    return names["X"], names["y"], names["C"]


def run(program: str, **environment: str) -> Any:
    """What a program in a fresh process prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=4 * LIVENESS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def progress_of(model: SVC, *data: Any) -> list[Progress]:
    seen: list[Progress] = []
    model.set_params(callbacks=[*(model.callbacks or ()), seen.append]).fit(*data)
    return seen


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_is_raised_again_and_the_model_is_usable() -> None:
    answer = run(
        HARD
        + """
import json, os, signal, threading, time
import numpy as np
from maxmargin import SVC

sent = []
def press():
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

def once_started(progress, timer=threading.Timer(0.2, press)):
    if not timer.is_alive() and not sent:
        timer.start()

model = SVC(C=C, callbacks=[once_started], max_seconds=60)
try:
    model.fit(X, y)
    raised = None
except KeyboardInterrupt as interrupt:
    raised = str(interrupt)
late = time.perf_counter() - sent[0]
f = model.decision_function(X)
beta = np.zeros(len(y))
beta[model.support_] = model.dual_coef_[0]
norm = beta @ (f - model.intercept_[0])
slack = np.maximum(0, 1 - (2 * y - 1) * f)
print(json.dumps({
    "raised": raised, "late": late, "status": model.status_.name, "handler": signal.getsignal(signal.SIGINT).__name__,
    "primal": 0.5 * norm + C * slack.sum(), "dual": np.abs(beta).sum() - 0.5 * norm,
    "reported": [model.certificate_.primal, model.certificate_.dual, model.certificate_.relative_gap],
    "accuracy": model.score(X, y),
}))
"""
    )
    assert answer["raised"] == Status.INTERRUPTED.value
    assert answer["status"] == "INTERRUPTED"
    assert answer["late"] < LIVENESS
    assert answer["handler"] == "default_int_handler"
    primal, dual, relative_gap = answer["reported"]
    assert primal == pytest.approx(answer["primal"], rel=1e-4)
    assert dual == pytest.approx(answer["dual"], rel=1e-4)
    assert answer["primal"] - answer["dual"] <= (primal - dual) * (1 + 1e-3)
    assert relative_gap > 1e-3
    assert answer["accuracy"] > 0.5


class PressCtrlC:
    """At the first report, and never again."""

    pressed = False

    def __call__(self, progress: Progress) -> None:
        if not self.pressed:
            self.pressed = True
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_between_machines_leaves_the_others_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InnerSolver, "entries_at_once", 1e6)  # else all machines are solved before the first report
    X, y = load_digits(return_X_y=True)
    model = SVC(callbacks=[PressCtrlC()])
    with pytest.raises(KeyboardInterrupt, match="Interrupted before reaching tol"):
        model.fit(X, y)
    assert model.status_ is Status.INTERRUPTED
    assert model.n_iter_[-1] == 0
    assert model.intercept_.shape == (45,)
    assert not model.certificate_.holds(1e-3)
    assert model.certificate_.parts[-1].dual == 0.0
    assert set(model.predict(X)) <= set(range(10))


def test_the_first_ctrl_c_is_noted_and_the_second_raised_at_once() -> None:
    control = Control()
    before = signal.getsignal(signal.SIGINT)
    with control.running():
        signal.raise_signal(signal.SIGINT)
        assert control.interrupted
        assert control.ended() is Status.INTERRUPTED
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert SVC(callbacks=[PressCtrlC()]).fit(*load_iris(return_X_y=True)).status_ is Status.CONVERGED
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_max_seconds() -> None:
    X, y, C = hard()
    model = SVC(C=C, max_seconds=0.2)
    with pytest.warns(ConvergenceWarning, match=r"Stopped at max_seconds before reaching tol.* Relative gap 0\.\d+"):
        model.fit(X, y)
    assert model.status_ is Status.MAX_SECONDS
    assert model.fit_status_ == 1
    assert 0.2 <= model.fit_seconds_ < LIVENESS
    assert 0 < model.certificate_.relative_gap < 1
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("max_iter", [0, 1, 17, 500])
@pytest.mark.parametrize("classes", [2, 10])
def test_max_iter_counts_the_steps_of_all_machines(max_iter: int, classes: int) -> None:
    X, y = load_digits(n_class=classes, return_X_y=True)
    model = SVC(C=100.0, gamma=1e-4, tol=1e-9, max_iter=max_iter)
    if classes == 2 and max_iter == 500:
        assert model.fit(X, y).status_ is Status.CONVERGED
        return
    with pytest.warns(ConvergenceWarning, match=rf"Solver terminated early \(max_iter={max_iter}\)\."):
        model.fit(X, y)
    assert model.status_ is Status.MAX_ITER
    assert model.n_iter_.sum() <= max_iter
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("gap_tol", [0.3, 0.03])
def test_gap_tol(gap_tol: float) -> None:
    """Without a tol the gap alone decides; with one both do, and without a gap_tol the violation alone."""
    X, y, _ = hard()
    model = SVC(tol=np.inf, gap_tol=gap_tol).fit(X, y)
    assert model.status_ is Status.GAP_REACHED
    assert model.status_.converged
    assert model.fit_status_ == 0
    assert model.certificate_.relative_gap <= gap_tol
    assert model.certificate_.kkt_violation > 1e-3
    both = SVC(gap_tol=gap_tol).fit(X, y)
    assert both.status_ is Status.CONVERGED
    assert both.certificate_.meets(both.tol, gap_tol)


def test_the_default_asks_for_a_small_gap() -> None:
    """With a large C a violation within tol is not enough."""
    X, y, C = hard()
    X, y = X[:1500], y[:1500]
    tol = 1.0  # much smaller ones are overshot by so much that the gap is small as well
    loose = SVC(C=C, tol=tol, gap_tol=None).fit(X, y)
    assert loose.status_ is Status.CONVERGED
    assert loose.certificate_.kkt_violation <= tol
    assert not loose.certificate_.holds(1e-3)
    model = SVC(C=C, tol=tol).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.holds(1e-3)


@pytest.mark.parametrize(("tol", "gap_tol"), [(np.inf, None), (1e-3, 0.0), (1e-3, -1.0), (np.nan, 1e-3), (1e-3, np.inf)])
def test_tolerances_that_would_end_nothing(tol: float, gap_tol: float | None) -> None:
    with pytest.raises(ValueError, match="tol"):
        SVC(tol=tol, gap_tol=gap_tol).fit(*hard()[:2])


# --- callbacks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["two classes", "ten classes"])
def test_progress_never_falls_and_ends_at_one(data: str) -> None:
    X, y = hard()[:2] if data == "two classes" else load_digits(return_X_y=True)
    seen = progress_of(SVC(), X, y)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] == 1.0
    assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)
    assert [p.steps for p in seen] == sorted(p.steps for p in seen)
    assert seen[-1].seconds_left == 0.0
    assert {p.n_machines for p in seen} == {1 if data == "two classes" else 45}
    assert max(p.machine for p in seen) == seen[0].n_machines - 1
    assert all(p.violation >= 0 and p.gap >= -1e-9 for p in seen)


def test_progress_tells_what_the_trace_keeps() -> None:
    model = SVC()
    seen = progress_of(model, *hard()[:2])
    assert [p.violation for p in seen] == model.trace_.violation
    assert len(seen) > 2


def test_a_callback_stops_the_fit_by_returning_true() -> None:
    X, y, C = hard()
    model = SVC(C=C, callbacks=[lambda progress: progress.iteration >= 2])
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(X, y)
    assert model.status_ is Status.STOPPED_BY_CALLBACK
    assert len(model.trace_.iteration) == 3
    assert not model.certificate_.holds(1e-3)


def test_a_callback_that_returns_something_else_does_not() -> None:
    assert SVC(callbacks=[lambda progress: 1]).fit(*load_iris(return_X_y=True)).status_ is Status.CONVERGED


def test_a_callback_that_stops_once_stops_all_machines() -> None:
    X, y = load_digits(return_X_y=True)
    answers = iter([True])
    model = SVC(callbacks=[lambda progress: next(answers, False)], max_iter=10**9)  # one by one
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(X, y)
    assert (model.n_iter_[1:] == 0).all()


def test_control_forgets_neither_a_stop_nor_the_progress_made() -> None:
    seen: list[Progress] = []
    answers = iter([False, True, False])

    def callback(progress: Progress) -> bool:
        seen.append(progress)
        return next(answers)

    control = Control(callbacks=[callback], n_machines=2)
    control.machine = 1
    assert control.report(0, violation=1.0, gap=0.5, fraction=0.5) is None
    assert control.report(1, violation=2.0, gap=0.7, fraction=0.2) is Status.STOPPED_BY_CALLBACK
    assert control.report(2, violation=0.1, gap=0.1, fraction=0.9) is Status.STOPPED_BY_CALLBACK
    assert control.ended() is Status.STOPPED_BY_CALLBACK
    assert [progress.fraction for progress in seen] == [0.75, 0.75, 0.95]


class Closing:
    closed = 0

    def __call__(self, progress: Progress) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


def test_a_callback_is_closed_however_the_fit_ends() -> None:
    closing = Closing()
    SVC(callbacks=[closing]).fit(*load_iris(return_X_y=True))
    assert closing.closed == 1

    def fail(progress: Progress) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        SVC(callbacks=[closing, fail]).fit(*load_iris(return_X_y=True))
    assert closing.closed == 2


def test_progress_bar() -> None:
    screen = io.StringIO()
    model = SVC(callbacks=[ProgressBar(file=screen, desc="training")])
    model.fit(*hard()[:2])
    last = screen.getvalue().split("\r")[-1]
    assert "training: 100%" in last
    assert "gap " in last
    before = len(screen.getvalue())
    pickle.loads(pickle.dumps(ProgressBar()))
    model.fit(*load_iris(return_X_y=True))  # the same bar again
    assert "machine 3/3" in screen.getvalue()[before:]


def test_verbose_shows_a_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    SVC(verbose=True).fit(*load_iris(return_X_y=True))
    shown = capsys.readouterr()
    assert "fit: 100%" in shown.err
    assert shown.out == ""
    SVC().fit(*load_iris(return_X_y=True))
    assert capsys.readouterr().err == ""


# --- scikit-learn's callbacks -----------------------------------------------------------------------------------------

has_callbacks = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="scikit-learn has callbacks from 1.9 on"
)


class Recorder:
    """A callback of scikit-learn's protocol that writes down what it is told."""

    def __init__(self, stop_at: str = "") -> None:
        self.stop_at = stop_at
        self.heard: list[tuple[str, str]] = []
        self.fitted: Any = None

    def setup(self, estimator: Any, context: Any) -> None:
        self.heard.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.heard.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator: Any, context: Any, *, X: Any, fitted_estimator: Any) -> bool:
        self.heard.append(("end", context.task_name))
        if fitted_estimator is not None:
            self.fitted = fitted_estimator.predict(X)
        return context.task_name == self.stop_at

    def teardown(self, estimator: Any, context: Any) -> None:
        self.heard.append(("teardown", context.task_name))


@has_callbacks
def test_a_fit_is_a_tree_of_tasks() -> None:
    X, y = load_iris(return_X_y=True)
    recorder = Recorder()
    model = clone(SVC().set_callbacks(recorder)).fit(X, y)
    machine = [("begin", "machine"), ("begin", "iteration"), ("end", "iteration"), ("end", "machine")]
    assert recorder.heard[:2] == [("setup", "fit"), ("begin", "fit")]
    assert recorder.heard[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert recorder.heard.count(("begin", "machine")) == recorder.heard.count(("end", "machine")) == 3
    assert recorder.heard.count(("begin", "iteration")) == recorder.heard.count(("end", "iteration")) >= 3
    assert set(machine) <= set(recorder.heard)
    np.testing.assert_array_equal(recorder.fitted, model.predict(X))


@has_callbacks
def test_a_callback_of_scikit_learn_stops_the_fit() -> None:
    model = SVC().set_callbacks(Recorder(stop_at="iteration"))
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(*hard()[:2])
    assert len(model.trace_.iteration) == 1


@has_callbacks
def test_a_fit_that_fails_tears_its_callbacks_down() -> None:
    recorder = Recorder()

    def fail(progress: Progress) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        SVC(callbacks=[fail]).set_callbacks(recorder).fit(*load_iris(return_X_y=True))
    assert recorder.heard[-1] == ("teardown", "fit")


@has_callbacks
def test_the_progress_bar_of_scikit_learn(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar as TheirProgressBar

    SVC().set_callbacks(TheirProgressBar()).fit(*load_iris(return_X_y=True))
    assert "SVC - fit" in capsys.readouterr().out


# --- the warning ------------------------------------------------------------------------------------------------------


def test_the_warning_names_the_gap_and_the_feature_that_dwarfs_the_rest() -> None:
    X, y = make_classification(300, 4, random_state=0)
    frame = pd.DataFrame(X, columns=["age", "height", "income", "weight"])
    frame["income"] *= 1e5
    model = SVC(kernel="linear", max_iter=20)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(frame, y)
    (warning,) = caught
    message = str(warning.message)
    assert f"Relative gap {model.certificate_.relative_gap:.2g}" in message
    assert "Likely cause: the scale of income dwarfs the other features (standard deviation 1" in message
    assert "StandardScaler" in message
    assert warning.filename == __file__
    with pytest.warns(ConvergenceWarning, match="the scale of column 2 dwarfs"):
        model.fit(frame.to_numpy(), y)


def test_the_warning_without_such_a_feature_speaks_of_C() -> None:
    with pytest.warns(ConvergenceWarning, match="Likely cause: a large C or a kernel that is nearly singular"):
        SVC(max_iter=5).fit(*make_classification(300, 4, random_state=0))


# --- threads ----------------------------------------------------------------------------------------------------------


def fitted(seed: int, n: int = 3000) -> dict[str, Any]:
    X, y = make_classification(n, 10, n_classes=2 + seed % 2, n_informative=6, flip_y=0.1, random_state=seed)
    model = SVC(C=10.0).fit(X, y)
    return {"beta": model.dual_coef_, "b": model.intercept_, "f": model.decision_function(X)}


def test_a_repeated_fit_is_identical() -> None:
    first, second = fitted(0), fitted(0)
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])


def test_fits_in_two_threads_do_not_disturb_each_other() -> None:
    seeds = [0, 1, 2, 3]
    alone = [fitted(seed) for seed in seeds]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(fitted, seeds))
    for one, other in zip(alone, together, strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name])


def test_the_number_of_threads_does_not_change_the_result() -> None:
    program = """
import json
from sklearn.datasets import make_classification
from maxmargin import SVC
X, y = make_classification(3000, 30, n_informative=6, flip_y=0.1, random_state=0)
model = SVC(C=10.0, tol=1e-6).fit(X, y)
print(json.dumps({"f": model.decision_function(X).tolist(), "gap": model.certificate_.relative_gap}))
"""
    one, two = (run(program, OMP_NUM_THREADS=threads) for threads in ("1", "2"))
    np.testing.assert_allclose(one["f"], two["f"], atol=1e-4)
    assert max(one["gap"], two["gap"]) < 1e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_threads_run_during_a_fit() -> None:
    """The longest pause of a thread that wants to run every millisecond is short against the fit beside it."""
    X, y = make_classification(1000, 10, n_informative=5, flip_y=0.4, class_sep=0.3, random_state=0)
    took = []

    def fit() -> None:
        start = time.perf_counter()
        SVC(C=1e6, gamma=0.01, max_seconds=1.5, callbacks=[lambda progress: None]).fit(X, y)
        took.append(time.perf_counter() - start)

    thread = threading.Thread(target=fit)
    thread.start()
    ticks = [time.perf_counter()]
    while thread.is_alive():
        time.sleep(0.001)
        ticks.append(time.perf_counter())
    thread.join()
    assert np.diff(ticks).max() < 0.5 * took[0]


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in ThreadpoolController().info() if pool["user_api"] == "blas"}


def test_the_threads_of_blas_are_given_back_by_the_last_of_overlapping_sessions() -> None:
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        assert blas_threads() == {2}
        first, second = (make_backend("native").session(entries=10**9) for _ in range(2))
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}


def test_the_threads_of_blas_are_given_back_after_fits_that_overlap_or_fail() -> None:
    before, inside, after_overlap, after_failure = run(
        """
import json
from concurrent.futures import ThreadPoolExecutor
from sklearn.datasets import make_classification
from threadpoolctl import ThreadpoolController
from maxmargin import SVC

X, y = make_classification(2000, 60, flip_y=0.1, random_state=0)
blas = ThreadpoolController().select(user_api="blas")
def threads(progress=None):
    seen.append({pool["num_threads"] for pool in blas.info()})
def fail(progress):
    raise RuntimeError

seen = []
threads()
with ThreadPoolExecutor(3) as pool:
    list(pool.map(lambda C: SVC(C=C, callbacks=[threads]).fit(X, y), [0.1, 1.0, 10.0]))
threads()
try:
    SVC(callbacks=[fail]).fit(X, y)
except RuntimeError:
    threads()
before, *inside, after_overlap, after_failure = map(list, seen)
print(json.dumps([before, sorted(set(sum(inside, []))), after_overlap, after_failure]))
""",
        OPENBLAS_NUM_THREADS="2",
        MKL_NUM_THREADS="2",
    )
    assert (before, inside) == ([2], [1])
    assert (after_overlap, after_failure) == ([2], [2])
