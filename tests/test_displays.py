"""Displays: scikit-learn's interface, what they hold and draw, and pictures that can be read in light and in dark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, SVR, C_path, KernelRegressor, NuSVC, NuSVR, OneClassSVM, plots
from maxmargin.formulations.losses import HuberHinge, SquaredHinge

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")

X, Y = make_moons(120, noise=0.25, random_state=0)
LINE = np.linspace(0.0, 6.0, 60)[:, None]
WAVE = np.sin(LINE[:, 0]) + 0.3 * np.cos(25.0 * LINE[:, 0])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def unfinished():
    with pytest.warns(ConvergenceWarning):
        return SVC(C=10.0, max_iter=30).fit(X, Y)


DISPLAYS = {
    "boundary": lambda ax: plots.BoundaryDisplay.from_estimator(SVC(C=2.0).fit(X, Y), X, Y, ax=ax),
    "regions": lambda ax: plots.BoundaryDisplay.from_estimator(SVC().fit(*IRIS), *IRIS, ax=ax),
    "margins": lambda ax: plots.MarginDisplay.from_estimator(SVC(kernel="linear").fit(X, Y), X, Y, ax=ax),
    "tube": lambda ax: plots.TubeDisplay.from_estimator(SVR(C=10.0).fit(LINE, WAVE), LINE, WAVE, ax=ax),
    "one class": lambda ax: plots.OneClassDisplay.from_estimator(OneClassSVM(nu=0.1).fit(X), X, ax=ax),
    "gap": lambda ax: plots.GapDisplay.from_estimator(SVC(kernel="linear", C=100.0).fit(X, Y), ax=ax),
    "path": lambda ax: plots.PathDisplay.from_path(C_path(X[::2], Y[::2], [0.1, 1.0], validation_set=(X, Y)), ax=ax),
    "grid": lambda ax: plots.GridDisplay.from_estimator(SVCCV(Cs=[0.1, 1.0], gammas=[0.5, 5.0], cv=3).fit(X, Y), ax=ax),
    "calibration": lambda ax: plots.CalibrationDisplay.from_estimator(SVC(probability="loo").fit(X, Y), X, Y, n_bins=5, ax=ax),
    "shares": lambda ax: plots.GapSharesDisplay.from_estimator(SVC(gap_tol=None, tol=0.5).fit(X, Y), Y, ax=ax),
}
IRIS = load_iris(return_X_y=True)


def artists(ax: Any) -> list[str]:
    return [type(one).__name__ for one in ax.get_children()]


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("name", DISPLAYS)
def test_the_interface_and_a_picture_that_can_be_read(name: str, style: str) -> None:
    with pyplot.style.context(style):
        figure, ax = pyplot.subplots(figsize=(7.2, 6.4), layout="constrained")
        display = DISPLAYS[name](ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        again = display.plot()  # the display holds all that it draws
        assert again is display
        assert display.ax_ is not ax
        assert artists(display.ax_) == artists(ax)
        figure.canvas.draw()
        assert display.ax_.get_title(loc="left")
        page = figure.bbox
        assert ax.get_tightbbox().x1 <= page.x1  # with the title
        if (legend := ax.get_legend()) is None:
            assert name in ("grid", "shares")  # all others have more than one kind of thing in them
            return
        below = legend.get_window_extent()
        assert below.y1 <= ax.xaxis.get_tightbbox().y0  # under the axes, the numbers and their name
        assert page.x0 <= below.x0
        assert below.x1 <= page.x1
        assert below.y0 >= page.y0


@pytest.mark.parametrize(("style", "dark"), [("default", False), ("dark_background", True)])
def test_lines_stand_out_from_the_background(style: str, dark: bool) -> None:
    with pyplot.style.context(style):
        ax = DISPLAYS["boundary"](None).ax_
        (line,) = (one for one in ax.lines if one.get_label().startswith("decision boundary"))
        assert (np.mean(pyplot.matplotlib.colors.to_rgb(line.get_color())) > 0.5) == dark


@pytest.mark.parametrize(
    "model",
    [
        NuSVC(nu=0.3),
        SVCCV(Cs=[1.0], gammas=[1.0], cv=2),
        make_pipeline(StandardScaler(), SVCCV(Cs=[1.0], gammas=[1.0], cv=2)),
        SVC(loss=HuberHinge(0.3)),
        SVC(loss=SquaredHinge()),
    ],
    ids=["nu", "search", "pipeline", "huber", "squared"],
)
def test_every_classifier_has_a_boundary(model: Any) -> None:
    display = plots.BoundaryDisplay.from_estimator(model.fit(X, Y), X, Y)
    machine = model[-1] if hasattr(model, "steps") else model
    machine = getattr(machine, "best_estimator_", machine)
    kinds = dict(display.support)
    assert_array_equal(np.sort(np.concatenate(list(kinds.values()))), np.sort(machine.support_))
    on_margin = kinds.get("support vectors on the margin", [])  # free ones of the hinge loss only
    assert_allclose(np.abs(model.decision_function(X[on_margin])) if len(on_margin) else [], 1.0, atol=1e-2)
    assert (not isinstance(model, SVC)) or "support vectors on the margin" not in kinds


def test_the_tube_is_where_the_machine_says() -> None:
    model = SVR(C=10.0, epsilon=0.2, tol=1e-6).fit(LINE, WAVE)
    display = plots.TubeDisplay.from_estimator(model, LINE, WAVE, feature_name="time")
    assert_allclose(display.centre[:, 1], model.predict(display.centre[:, :1]))
    assert_array_equal(display.outside, np.abs(WAVE - model.predict(LINE)) > 0.2 + 1e-6)
    assert 0 < display.outside.sum() < 60
    assert display.ax_.get_xlabel() == "time"
    (band,) = (one for one in display.ax_.collections if one.get_label().startswith("tube"))
    edges = band.get_paths()[0].vertices
    assert_allclose(edges[:, 1].max(), display.centre[:, 1].max() + 0.2)


def test_the_tube_of_many_features_is_around_the_diagonal() -> None:
    X4, y = IRIS[0][:, :3], IRIS[0][:, 3]
    model = NuSVR(nu=0.3).fit(X4, y)
    display = plots.TubeDisplay.from_estimator(model, X4, y)
    assert display.epsilon == model.epsilon_
    assert_array_equal(display.centre[:, 0], display.centre[:, 1])
    assert_allclose(display.points, np.column_stack([model.predict(X4), y]))
    with pytest.raises(TypeError, match="a KernelRegressor has no tube: pass a fitted SVR or NuSVR"):
        plots.TubeDisplay.from_estimator(KernelRegressor().fit(X4, y), X4, y)


def test_the_region_of_one_class() -> None:
    model = OneClassSVM(nu=0.1).fit(X)
    display = plots.OneClassDisplay.from_estimator(model, X)
    assert_array_equal(display.inlier, model.predict(X) == 1)
    borders = [c for c in display.ax_.collections if hasattr(c, "levels") and list(c.levels) == [0.0]]
    (border,) = borders
    points = np.concatenate([path.vertices for path in border.get_paths()])
    spread = np.ptp(model.decision_function(X))
    assert_allclose(model.decision_function(points), 0.0, atol=1e-3 * spread)


def test_the_samples_that_hold_the_gap(unfinished: Any) -> None:
    display = plots.GapSharesDisplay.from_estimator(unfinished, Y)
    widths = [bar.get_width() for bar in display.ax_.patches]
    terms = np.sort(unfinished.certificate_.gap_terms)[::-1]
    assert_allclose(widths, terms[: len(widths)])
    assert widths[-1] > 0.0
    first = int(display.ax_.get_yticklabels()[0].get_text().split()[0])
    assert unfinished.certificate_.gap_terms[first] == terms[0]
    assert f"duality gap {unfinished.certificate_.gap_terms.sum():.2e}" in display.ax_.get_title(loc="left")
    several = SVC().fit(*IRIS)
    assert_allclose(
        plots.GapSharesDisplay.from_estimator(several).terms, np.sum(several.certificate_.gap_terms, axis=0), atol=1e-300
    )
    nothing = plots.GapSharesDisplay(terms=np.zeros(5)).plot()
    assert nothing.ax_.get_title(loc="left") == "no sample holds any of the gap: it is zero"


def test_calibration_is_that_of_the_probabilities() -> None:
    model = SVC(probability="loo").fit(*IRIS)
    display = plots.CalibrationDisplay.from_estimator(model, *IRIS, n_bins=3)
    assert list(display.curves) == ["0", "1", "2"]
    observed, predicted = calibration_curve(IRIS[1] == 2, model.predict_proba(IRIS[0])[:, 2], n_bins=3, strategy="quantile")
    assert_array_equal(display.curves["2"], (predicted, observed))


def test_the_grid_of_one_of_several_scorers() -> None:
    search = SVCCV(Cs=[0.1, 1.0], gammas=[0.5, 5.0], cv=3, scoring=["accuracy", "f1"], refit="f1").fit(X, Y)
    for metric in (None, "accuracy"):
        ax = plots.GridDisplay.from_estimator(search, metric=metric).ax_
        drawn = np.ma.asarray(ax.collections[0].get_array())
        name = metric or "f1"
        assert_allclose(np.sort(drawn.ravel()), np.sort(search.cv_results_[f"mean_test_{name}"]))
        assert f"best {name}" in ax.get_title(loc="left")
    with pytest.raises(ValueError, match="metric='recall': must be one of f1, accuracy"):
        plots.GridDisplay.from_estimator(search, metric="recall")
