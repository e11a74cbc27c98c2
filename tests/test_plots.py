"""Pictures: what is drawn is what the model says, in the right place and in the right number."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, SVRCV, C_path
from maxmargin.plots import decision_boundary, free_support, gap_trace, heat_map, regularisation_path, save

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(120, noise=0.25, random_state=0)
    return X, y, SVC(C=2.0, tol=1e-5).fit(X, y)


def drawn(ax, label):
    """Return the positions of the points whose legend entry begins with `label`, and the entry."""
    (found,) = (c for c in ax.collections if str(c.get_label()).startswith(label))
    return np.asarray(found.get_offsets()), found.get_label()


def contours(ax):
    """Return {level: points of the line drawn for it}."""
    return {
        c.levels[0]: np.concatenate([path.vertices for path in c.get_paths()]) for c in ax.collections if hasattr(c, "levels")
    }


# --- the decision boundary ---------------------------------------------------------------------


def test_lines_are_where_the_decision_function_says(moons):
    X, y, model = moons
    lines = contours(decision_boundary(model, X, y))
    assert set(lines) == {-1.0, 0.0, 1.0}
    for level, points in lines.items():
        assert len(points) > 20
        np.testing.assert_allclose(model.decision_function(points), level, atol=0.02)


def test_rings_are_the_support_vectors(moons):
    X, y, model = moons
    ax = decision_boundary(model, X, y)
    free, free_entry = drawn(ax, "support vectors on the margin")
    bounded, bounded_entry = drawn(ax, "support vectors at the bound C")
    assert free_entry.endswith(f"({len(free)})")
    assert bounded_entry.endswith(f"({len(bounded)})")
    assert len(free) > 0
    assert len(bounded) > 0
    both = np.concatenate([free, bounded])
    assert {tuple(p) for p in both} == {tuple(p) for p in X[model.support_]}
    np.testing.assert_allclose(np.abs(model.decision_function(free)), 1, atol=1e-3)


def test_points_and_counts_by_class(moons):
    X, y, model = moons
    ax = decision_boundary(model, X, y, feature_names=["long", "wide"])
    for label in (0, 1):
        points, entry = drawn(ax, f"{label} ")
        np.testing.assert_array_equal(points, X[y == label])
        assert entry == f"{label} ({np.sum(y == label)})"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("long", "wide")


def test_title_has_accuracy_and_gap(moons):
    X, y, model = moons
    title = decision_boundary(model, X, y, note="one more line").get_title(loc="left")
    assert f"accuracy {model.score(X, y):.1%}" in title
    assert f"relative duality gap {model.certificate_.relative_gap:.1e}" in title
    assert title.endswith("\none more line")


def test_draws_into_the_axes_given(moons):
    X, y, model = moons
    _, axes = matplotlib.pyplot.subplots(1, 2)
    assert decision_boundary(model, X, y, axes[1]) is axes[1]
    assert not axes[0].collections
    assert len(matplotlib.pyplot.get_fignums()) == 1


def test_pipeline(moons):
    X, y, _ = moons
    model = make_pipeline(StandardScaler(), SVC(tol=1e-5)).fit(X * [1, 1000], y)
    ax = decision_boundary(model, X * [1, 1000], y)
    np.testing.assert_allclose(model.decision_function(contours(ax)[0.0]), 0, atol=0.02)


def test_regions_of_several_classes():
    X, y = make_blobs([20, 30, 40], centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    names = np.array(["fig", "lime", "plum"])[y]
    model = SVC().fit(X, names)
    ax = decision_boundary(model, X, names)
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    index = np.asarray(image.get_array())
    n = len(index)
    for (a, b), name in zip(X, names, strict=True):
        column, row = round((a - left) / (right - left) * (n - 1)), 0
        row = round((b - bottom) / (top - bottom) * (n - 1))
        assert model.classes_[index[row, column]] == name  # the blobs are far apart
    assert drawn(ax, "lime")[1] == "lime (30)"


def test_more_features_are_a_slice_and_the_title_says_so():
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    model = SVC(tol=1e-5).fit(X, y)
    ax = decision_boundary(model, X, y)
    assert "slice of the 4-feature decision function" in ax.get_title(loc="left")
    assert "% of the variance" in ax.get_xlabel()
    plane = PCA(2).fit(X)
    np.testing.assert_allclose(model.decision_function(plane.inverse_transform(contours(ax)[0.0])), 0, atol=0.02)


def test_plane_of_the_caller():
    X, y = load_iris(return_X_y=True)
    plane = PCA(3).fit(X)
    plane.components_ = plane.components_[[0, 2]]
    ax = decision_boundary(SVC().fit(X, y), X, y, project=plane)
    np.testing.assert_allclose(drawn(ax, "0 ")[0], plane.transform(X[y == 0]))


def test_sparse():
    X, y = make_blobs(60, n_features=5, centers=2, random_state=0)
    X[X < 0] = 0
    ax = decision_boundary(SVC().fit(csr_matrix(X), y), csr_matrix(X), y)
    assert "5-feature" in ax.get_title(loc="left")


def test_many_samples_are_thinned_and_the_title_says_so():
    X, y = make_blobs(5000, centers=[[0, 0], [9, 9]], random_state=0)
    ax = decision_boundary(SVC(kernel="linear").fit(X, y), X, y)
    assert "4000 of 5000 samples drawn" in ax.get_title(loc="left")
    assert drawn(ax, "0 ")[1] == "0 (2500)"
    assert len(drawn(ax, "0 ")[0]) + len(drawn(ax, "1 ")[0]) == 4000


def test_refused(moons):
    X, y, model = moons
    with pytest.raises(ValueError, match="X has 100 samples: pass the 120"):
        decision_boundary(model, X[:100], y[:100])
    with pytest.raises(ValueError, match="X has 1 feature"):
        decision_boundary(SVC().fit(X[:, :1], y), X[:, :1], y)


# --- free and bounded --------------------------------------------------------------------------


def test_free_support_is_strictly_inside_the_box(moons):
    _, _, model = moons
    free = free_support(model)
    size = np.abs(model.dual_coef_[0])
    np.testing.assert_allclose(size[~free], model.C)
    assert (size[free] < model.C).all()
    assert 0 < free.sum() < free.size


def test_free_support_knows_class_weights(moons):
    X, y, _ = moons
    model = SVC(class_weight={0: 0.5, 1: 2.0}, tol=1e-5).fit(X, y)
    free = free_support(model)
    value = np.abs(model.decision_function(X[model.support_]))
    np.testing.assert_allclose(value[free], 1, atol=1e-3)
    size = np.abs(model.dual_coef_[0])
    bound = np.where(y[model.support_] == 0, 0.5, 2.0)
    np.testing.assert_allclose(size[~free], bound[~free])
    assert len(set(bound[~free])) == 2


def test_free_support_without_a_bound(moons):
    X, y, _ = moons
    assert free_support(SVC(loss="squared_hinge").fit(X, y)).all()


# --- the trace ---------------------------------------------------------------------------------


def test_gap_trace_skips_what_was_not_measured(moons):
    X, y, _ = moons
    model = SVC().fit(X, y)
    model.trace_ = SimpleNamespace(
        seconds=[0.1, 0.2, 0.3],
        gap=[np.nan, 5.0, 0.5],
        violation=[1.0, 0.1, 0.0],
        iteration=[1, 2, 3],
    )
    lines = {line.get_label(): line for line in gap_trace(model).lines}
    np.testing.assert_array_equal(lines["duality gap (primal minus dual)"].get_xydata(), [[0.2, 5.0], [0.3, 0.5]])
    np.testing.assert_array_equal(lines["KKT violation"].get_xydata(), [[0.1, 1.0], [0.2, 0.1]])
    assert lines["tol = 0.001"].get_ydata()[0] == 1e-3
    certified = lines[f"certified gap {model.certificate_.gap:.2e}"]
    np.testing.assert_allclose(certified.get_xydata(), [[0.3, model.certificate_.gap]])


def test_gap_trace_of_a_real_fit(moons):
    ax = gap_trace(moons[2])
    assert str(moons[2].status_) in ax.get_title(loc="left").replace("\n", " ")
    assert ax.get_yscale() == "log"


# --- paths and grids ---------------------------------------------------------------------------


def test_a_path_over_its_C(moons):
    X, y, _ = moons
    path = C_path(X[::2], y[::2], np.logspace(-2, 2, 6), validation_set=(X[1::2], y[1::2]))
    ax = regularisation_path(path)
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    np.testing.assert_array_equal(lines["validation score"], np.column_stack([path.Cs, path.scores]))
    shares = [len(machine.support_) / 60 for machine in path.machines]
    np.testing.assert_array_equal(lines["share of support vectors"], np.column_stack([path.Cs, shares]))
    best = path.best()
    assert lines[f"best: C = {best.C:.4g}, score {path.scores.max():.4g}"][0, 0] == best.C
    assert ax.get_xscale() == "log"
    (gaps,) = (line for other in ax.figure.axes if other is not ax for line in other.lines)
    proved = [proof.relative_gap for proof in path.certificates]
    np.testing.assert_allclose(gaps.get_ydata(), [gap for gap in proved if gap > 0.0])  # zero is nowhere on such a scale
    assert gaps.axes.get_yscale() == "log"
    assert f"at most {gaps.get_ydata().max():.1e}" in ax.get_title(loc="left")


def test_a_training_score_is_not_called_best(moons):
    X, y, _ = moons
    ax = regularisation_path(C_path(X, y, [0.1, 1.0]))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "training score" in labels
    assert not any("best" in label or "validation" in label for label in labels)


def cells(ax):
    """Return the scores that are drawn, the corners of the cells, and the ring."""
    (mesh,) = ax.collections
    corners = mesh.get_coordinates()
    return np.ma.asarray(mesh.get_array()), corners[0, :, 0], corners[:, 0, 1], [line.get_xydata()[0] for line in ax.lines]


def test_heat_map(moons):
    X, y, _ = moons
    Cs, gammas = [10.0, 0.1, 1.0], [0.5, 8.0]
    search = SVCCV(Cs=Cs, gammas=gammas, cv=3).fit(X, y)
    ax = heat_map(search)
    scores, left, bottom, (ring,) = cells(ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    np.testing.assert_allclose(left, 10.0 ** np.array([-1.5, -0.5, 0.5, 1.5]))
    np.testing.assert_allclose(bottom, [0.125, 2.0, 32.0])
    assert {**search.best_params_} == {"C": ring[0], "gamma": ring[1]}
    for point, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        column, row = np.searchsorted(left, point["C"]) - 1, np.searchsorted(bottom, point["gamma"]) - 1
        assert scores[row, column] == score
    title = ax.get_title(loc="left")
    assert f"best score {search.best_score_:.4g} at C = {search.best_params_['C']:.4g}" in title
    assert "3 folds" in title
    assert "slice" not in title
    theirs = GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=3).fit(X, y)
    np.testing.assert_array_equal(cells(heat_map(theirs))[0], scores)


def test_heat_map_of_a_slice_and_of_one_cell(moons):
    X, y, _ = moons
    search = SVRCV(Cs=[1.0, 10.0], gammas=[1.0], epsilons=[0.5, 0.1], cv=3).fit(X, y)
    ax = heat_map(search)
    best = search.best_params_["epsilon"]
    assert ax.get_title(loc="left").endswith(f"slice at epsilon = {best}")
    scores, _, bottom, _ = cells(ax)
    assert scores.shape == (1, 2)
    assert bottom[0] < 1.0 < bottom[1]
    shown = search.cv_results_["param_epsilon"] == best
    np.testing.assert_array_equal(scores[0], search.cv_results_["mean_test_score"][shown])


def test_heat_map_of_an_unfinished_grid(moons):
    X, y, _ = moons
    search = SVCCV(Cs=[0.1, 10.0], gammas=[1.0, 2.0], cv=3, refit=False).fit(X, y)
    search.cv_results_["mean_test_score"][0] = np.nan
    assert cells(heat_map(search))[0].mask.sum() == 1
    search.cv_results_["mean_test_score"][:] = np.nan
    ax = heat_map(search)
    assert cells(ax)[3] == []
    assert ax.get_title(loc="left") == "no point is done on all folds"


def test_heat_map_needs_both_parameters(moons):
    X, y, _ = moons
    search = GridSearchCV(SVC(), {"C": [1.0, 2.0]}, cv=3).fit(X, y)
    with pytest.raises(ValueError, match="the grid has no gamma: the picture is of C and gamma"):
        heat_map(search)


def test_paths_and_grids_are_drawn_into_the_axes_given(moons):
    X, y, _ = moons
    _, axes = matplotlib.pyplot.subplots(1, 2)
    assert regularisation_path(C_path(X, y, [1.0]), axes[0]) is axes[0]
    assert heat_map(SVCCV(Cs=[1.0], gammas=[1.0], cv=2).fit(X, y), axes[1]) is axes[1]
    assert len(matplotlib.pyplot.get_fignums()) == 1


# --- files -------------------------------------------------------------------------------------


def test_save(moons, tmp_path):
    X, y, model = moons
    ax = decision_boundary(model, X, y)
    path = save(ax, tmp_path / "boundary.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert save(ax.figure, str(tmp_path / "boundary.svg")).stat().st_size > 1000
    with pytest.raises(ValueError, match=r"the ending must be one of .*png"):
        save(ax, tmp_path / "boundary.jpgg")
    with pytest.raises(ValueError, match="there is no folder"):
        save(ax, tmp_path / "absent" / "boundary.png")


def test_without_matplotlib_the_message_says_how_to_get_it(moons, monkeypatch):
    X, y, model = moons
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[plot\]'"):
        decision_boundary(model, X, y)
