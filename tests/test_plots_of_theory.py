"""Pictures of the theory: what is drawn is what the definitions say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from maxmargin import SVC, plots
from maxmargin.kernels import RBF, Linear
from maxmargin.theory import geometry, losses
from maxmargin.theory.geometry import Hyperplane, Side
from maxmargin.theory.optimality import PairProblem, duality

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def lines(ax):
    """Return {legend entry: points} of the lines drawn."""
    return {line.get_label(): np.column_stack(line.get_data()).astype(float) for line in ax.lines}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs([25, 20], centers=[[0, 0], [3, 2]], random_state=1)
    return X, y, SVC(kernel="linear", tol=1e-6).fit(X, y)


def test_slack_is_drawn_from_each_sample_to_its_margin(blobs):
    X, y, model = blobs
    ax = plots.margins(model, X, y)
    (slack,) = (c for c in ax.collections if c.get_label() == "slack ξ / |w|")
    segments = np.array(slack.get_segments())
    plane = geometry.of(model)
    xi = geometry.slack(plane, X, y)
    missing = np.isin(geometry.sides(plane, X, y), (Side.INSIDE, Side.MISCLASSIFIED))
    assert len(segments) == missing.sum() > 0
    assert missing.sum() < np.sum(xi > 0)  # what rounding leaves of a margin of 1 is no slack
    np.testing.assert_allclose(np.abs(model.decision_function(segments[:, 1])), 1.0, atol=1e-6)  # the feet are on a margin
    lengths = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    np.testing.assert_allclose(lengths, xi[missing] / plane.norm, rtol=1e-5, atol=1e-9)
    counts = {side: np.sum(geometry.sides(plane, X, y) == side) for side in Side}
    assert f"on the margin ({counts[Side.ON_MARGIN]})" in legend(ax)
    assert f"inside the margin, 0 < ξ < 1 ({counts[Side.INSIDE]})" in legend(ax)
    assert f"{geometry.margin_width(plane):.3g}" in ax.get_title(loc="left")


def test_margins_of_a_plain_hyperplane_and_of_a_kernel(blobs):
    X, y, model = blobs
    plain = Hyperplane(np.ravel(model.coef_), model.intercept_[0])
    ax = plots.margins(plain, X, np.where(y == 1, 1, -1))
    levels = {c.levels[0]: np.concatenate([p.vertices for p in c.get_paths()]) for c in ax.collections if hasattr(c, "levels")}
    assert set(levels) == {-1.0, 0.0, 1.0}
    for level, points in levels.items():
        np.testing.assert_allclose(plain.h(points), level, atol=1e-6)
    curved = plots.margins(SVC().fit(X, y), X, y)
    assert "slack ξ / |w|" not in legend(curved)
    with pytest.raises(ValueError, match="two features"):
        plots.margins(Hyperplane([1.0, 0.0, 0.0], 0.0), np.zeros((2, 3)), [1, -1])


def test_losses_are_the_losses():
    ax = plots.loss_comparison()
    drawn = lines(ax)
    for loss, label in ((losses.hinge, "hinge, max(0, 1 − ty)"), (losses.logistic, "logistic, −log σ(ty)")):
        np.testing.assert_allclose(drawn[label][:, 1], loss.of_margin(drawn[label][:, 0]))
    assert len(legend(ax)) == 5


def test_kernels(blobs):
    X, y, _ = blobs
    drawn = lines(plots.kernel_profiles({"Gaussian": RBF(0.5), "linear": Linear()}, at=0.5))
    np.testing.assert_allclose(drawn["Gaussian"][:, 1], np.exp(-0.5 * (drawn["Gaussian"][:, 0] - 0.5) ** 2))
    ax = plots.kernel_matrix(RBF(0.5), X, y)
    order = np.argsort(y, kind="stable")
    np.testing.assert_allclose(ax.images[0].get_array(), RBF(0.5).block(X[order], X[order]))
    assert [line.get_ydata()[0] for line in ax.lines[:1]] == [24.5]


def test_a_step_of_smo():
    pair = PairProblem(np.array([[2.0, 0.3], [0.3, 0.6]]), (1.0, -1.0), (1.0, 1.0), (1.2, 1.0))
    start = (0.3, 0.1)
    step = pair.step(start)
    drawn = lines(plots.smo_step(pair, start))
    np.testing.assert_allclose(drawn["start"], [start])
    np.testing.assert_allclose(drawn["after the step"], [step.end])
    np.testing.assert_allclose(drawn["unclipped"], [step.unclipped])
    segment = drawn["y₁α₁ + y₂α₂ = ζ inside the box"]
    np.testing.assert_allclose(segment[:, 1], [step.low, step.high])
    np.testing.assert_allclose(segment @ pair.signs, np.dot(start, pair.signs))
    assert (segment >= -1e-12).all()
    assert (segment <= 1 + 1e-12).all()
    with pytest.raises(ValueError, match="finite C"):
        plots.smo_step(PairProblem(np.eye(2), (1.0, 1.0), (np.inf, np.inf)), start)


def test_the_path_of_coordinate_ascent():
    pair = PairProblem(np.array([[2.0, 1.0], [1.0, 2.0]]), (1.0, 1.0), (1.0, 1.0))
    drawn = lines(plots.coordinate_path(pair, steps=12))
    np.testing.assert_allclose(drawn["coordinate ascent"], pair.coordinate_ascent(steps=12))


def test_duality_over_the_iterations():
    X, y = make_moons(2500, noise=0.3, random_state=0)
    model = SVC(C=1000.0, kernel="rbf", gamma=5.0).fit(X, y)
    ax = plots.duality_trace(model)
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["primal value"][:, 1], model.trace_.primal)
    np.testing.assert_allclose(drawn["dual value"][:, 1], model.trace_.dual)
    assert ax.get_title(loc="left") == str(duality(model))


@pytest.mark.parametrize("draw", [
    lambda ax, X, y, model: plots.margins(model, X, y, ax),
    lambda ax, X, y, model: plots.loss_comparison(ax),
    lambda ax, X, y, model: plots.kernel_profiles({"rbf": RBF(1.0)}, ax=ax),
    lambda ax, X, y, model: plots.kernel_matrix(RBF(1.0), X, y, ax),
    lambda ax, X, y, model: plots.smo_step(PairProblem.of(model, X, y, 0, 1), (0.1, 0.1), ax),
    lambda ax, X, y, model: plots.coordinate_path(PairProblem.of(model, X, y, 0, 1), ax=ax),
    lambda ax, X, y, model: plots.duality_trace(model, ax),
])  # fmt: skip
def test_draws_into_the_axes_given_and_saves(draw, blobs, tmp_path):
    _, axes = matplotlib.pyplot.subplots(1, 2)
    assert draw(axes[1], *blobs) is axes[1]
    assert len(matplotlib.pyplot.get_fignums()) == 1
    assert plots.save(axes[1], tmp_path / "picture.png").stat().st_size > 1000
