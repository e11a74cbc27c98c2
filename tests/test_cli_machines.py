"""The command line and the machines: each is trained, validated, tuned, saved and used."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

import maxmargin
from maxmargin.cli import main
from tests.command_line import refused, value

pytest.importorskip("click")
from maxmargin.cli.machines import MACHINES

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 3))
VALUES = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.05 * RNG.normal(size=90)
CLASSES = np.where(VALUES > 0.4, 1, -1)
FEW_POINTS = {"C": ("--Cs", "1,10"), "gamma": ("--gammas", "0.1,1"), "epsilon": ("--epsilons", "0.05,0.1")}
FEW_POINTS |= {"nu": ("--nus", "0.2,0.3"), "alpha": ("--alphas", "0.01,1")}


def write(name: str, y: np.ndarray) -> None:
    rows = ["a,b,c,target", *(",".join(map(repr, [*x, label])) for x, label in zip(X.tolist(), y.tolist(), strict=True))]
    Path(name).write_text("\n".join(rows) + "\n")


@pytest.fixture
def data(run):
    """Files with classes and with values as targets, in the folder of `run`."""
    write("classes.csv", CLASSES)
    write("values.csv", VALUES)


def file_for(name: str) -> str:
    return "values.csv" if MACHINES[name].task == "values" else "classes.csv"


@pytest.mark.parametrize("ending", ["joblib", "safetensors"])
@pytest.mark.parametrize("name", MACHINES)
def test_train_save_predict_audit(run, data, name, ending):
    """What is saved is the machine that Python would fit on the whole file; `predict` and `audit` find it so."""
    file = file_for(name)
    out = run("train", file, f"m.{ending}", "--machine", name).stdout
    assert value(out, "trained on").startswith("67 samples, 23 set aside")
    assert "trained again on all 90 samples" in out
    facts = json.loads(run("predict", f"m.{ending}", file, "--json").stdout)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    y = VALUES if file == "values.csv" else CLASSES
    ours = getattr(maxmargin, MACHINES[name].estimator)().fit(scaled, y)
    np.testing.assert_allclose(facts["prediction"], ours.predict(scaled), rtol=1e-3, atol=1e-3)
    expected = {"R2": r2_score(y, facts["prediction"]), "MSE": mean_squared_error(y, facts["prediction"])}
    if file == "classes.csv":
        expected = {"accuracy": np.mean(y == facts["prediction"])}
    assert facts["scores"] == pytest.approx(expected | {key: v for key, v in facts["scores"].items() if key == "inliers"})
    if hasattr(ours, "support_"):
        assert "within" in run("audit", f"m.{ending}", file, "--gap-tol", 1e-2).stdout


@pytest.mark.parametrize("name", MACHINES)
def test_cross_validation(run, data, name):
    """-v N gives the scores of scikit-learn's cross-validation, and writes no model."""
    file = file_for(name)
    facts = json.loads(run("train", file, "--machine", name, "-v", 4, "--no-standardize", "--json").stdout)
    ours = getattr(maxmargin, MACHINES[name].estimator)()
    y = VALUES if file == "values.csv" else CLASSES
    folds = (StratifiedKFold if is_classifier(ours) else KFold)(4, shuffle=True, random_state=0)
    score = "R2" if file == "values.csv" else "accuracy"
    expected = cross_val_score(ours, X, y, cv=folds, scoring="r2" if score == "R2" else "accuracy")
    np.testing.assert_allclose(facts["cross_validation"][score], expected, atol=1e-3)
    assert sorted(path.name for path in Path().iterdir()) == ["classes.csv", "values.csv"]


@pytest.mark.parametrize("name", MACHINES)
def test_tune(run, data, name):
    """The best point has the best mean score of the CSV table; where it lies at an end of the grid, a hint says so."""
    options = [word for axis in MACHINES[name].axes for word in FEW_POINTS[axis]]
    file = file_for(name)
    result = run("tune", file, "m.joblib", "--machine", name, "-v", 3, *options, "--scores", "s.csv", "--json")
    facts = json.loads(result.stdout)
    with open("s.csv", newline="") as lines:
        table = list(csv.DictReader(lines))
    assert len(table) == 2 ** len(MACHINES[name].axes)
    scores = [float(row["mean_test_score"]) for row in table]
    assert facts["best_score"] == max(scores)
    assert {axis: float(table[int(np.argmax(scores))][axis]) for axis in MACHINES[name].axes} == facts["best_parameters"]
    assert set(facts["at_the_edge"]) == set(MACHINES[name].axes)  # of two values, each is at an end
    machine = joblib.load("m.joblib")[-1]
    assert {axis: getattr(machine, axis) for axis in MACHINES[name].axes} == facts["best_parameters"]
    report = run("tune", file, "--machine", name, "-v", 3, *options).stdout
    assert report.count("value of the grid: try ") == len(MACHINES[name].axes)


def test_no_hint_inside_the_grid(run, data):
    facts = json.loads(run("tune", "classes.csv", "--Cs", "1e-4,1,1e7", "--gammas", "1e-5,0.3,1e4", "--json").stdout)
    assert facts["best_parameters"] == {"C": 1.0, "gamma": 0.3}
    assert facts["at_the_edge"] == {}


def test_points_that_cannot_be_trained_are_counted(run, data):
    """nu = 0.99 is infeasible for these classes."""
    result = run("tune", "classes.csv", "-s", "nusvc", "--nus", "0.2,0.99", "--gammas", "1", "-v", 3)
    assert ", 3 of 6 fits done" in value(result.stdout, "grid")
    assert value(result.stdout, "best").startswith("gamma = 1, nu = 0.2:")


# --- the target ----------------------------------------------------------------------------------------------------------------


def test_a_continuous_target_is_regression(run, data):
    out = run("train", "values.csv").stdout
    assert value(out, "model").startswith("SVR")
    assert value(out, "task").startswith("regression, because the target has fractions")
    message = refused(run("train", "values.csv", "--machine", "svc", code=2))
    assert "the target column has fractions, and classes are needed (use --machine svr for regression" in message


def test_many_whole_numbers_are_regression(run):
    write("prices.csv", np.arange(90) * 1000)
    assert value(run("train", "prices.csv", "--test-size", 0).stdout, "model").startswith("SVC")  # 90 classes may be classes
    rows = "\n".join(f"{k % 7},{k % 11},{k * 1000}" for k in range(900))
    Path("many.csv").write_text(rows + "\n")
    out = run("train", "many.csv").stdout
    assert value(out, "task").startswith("regression, because the target has 900 different numbers in 900 samples")


def test_a_hint_where_classes_may_be_a_quantity(run):
    write("rings.csv", np.arange(90) % 21)
    assert (
        "hint: the target has 21 numbers as classes; if it is a quantity, use --machine svr" in run("train", "rings.csv").stdout
    )
    assert "hint" not in run("train", "rings.csv", "--machine", "svr").stdout


def test_one_class_needs_no_labels(run):
    Path("bare.csv").write_text("a,b\n" + "\n".join(f"{x!r},{y!r}" for x, y in X[:, :2].tolist()) + "\n")
    out = run("train", "bare.csv", "m.safetensors", "-s", "one-class", "-n", 0.2).stdout
    assert "90 samples, 2 features" in value(out, "data")
    labels = run("predict", "m.safetensors", "bare.csv")
    assert set(labels.stdout.split()) == {"1", "-1"}
    assert labels.stderr.startswith("inliers ")
    assert "tuning one-class needs labels, 1 for inliers and -1" in refused(run("tune", "bare.csv", "-s", "one-class", code=2))


# --- options -------------------------------------------------------------------------------------------------------------------


def test_class_weights(run, data):
    run("train", "classes.csv", "m.joblib", "--class-weight", "1=5", "--class-weight", "-1=2", "-q")
    assert joblib.load("m.joblib")[-1].class_weight == {1: 5.0, -1: 2.0}
    run("train", "classes.csv", "m.joblib", "--class-weight", "balanced", "-q")
    assert joblib.load("m.joblib")[-1].class_weight == "balanced"
    message = refused(run("train", "classes.csv", "--class-weight", "7=5", code=2))
    assert "--class-weight 7=5: must be balanced, or CLASS=WEIGHT with one of the classes -1, 1" in message
    message = refused(run("train", "values.csv", "--class-weight", "1=5", code=2))
    assert "--class-weight" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nu", "0.5"), "--nu: the machine svc has no nu (nusvc, one-class, nusvr, linear-one-class have)"),
        (("--machine", "kernel-ridge", "-C", "1"), "--C: the machine kernel-ridge has no C (svc, "),
        (("--test", "values.csv", "--test-size", "0.5"), "--test and --test-size: give one of them"),
        (("m.joblib", "--save", "n.joblib"), "MODEL m.joblib and --save n.joblib: give one of them"),
        (("--machine", "svr", "--plot", "p.png"), "--plot: a picture shows the boundary of an svc; svr has none"),
        (("-v", "3", "--test", "classes.csv"), "-v tests on each fold: leave --test and --test-size out"),
        (("-",), "-: only input can be -, the standard input; name a file to write to"),
        (("m.model", "--standardize"), "a LIBSVM model file does not hold the steps scale"),
    ],
)
def test_options_that_do_not_fit(run, data, words, message):
    assert message in refused(run("train", "classes.csv", *words, code=2))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--frobnicate",), "No such option '--frobnicate' (see maxmargin --help)"),
        (("frobnicate",), "No such command 'frobnicate' (see maxmargin --help)"),
        (("train", "classes.csv", "--frobnicate"), "(see maxmargin train --help)"),
        (("train", "classes.csv", "-c", "abc"), "'abc' is not a valid float (see maxmargin train --help)"),
        (("train", "classes.csv", "-v", "1"), "1 is not in the range x>=2 (see maxmargin train --help)"),
        (("predict", "m.joblib"), "Missing argument 'FILE' (see maxmargin predict --help)"),
        (("subset", "classes.csv", "0"), "0 is not in the range x>=1 (see maxmargin subset --help)"),
    ],
)
def test_wrong_options_are_refused_in_one_line(run, data, words, message):
    assert message in refused(run(*words, code=2))


def test_without_a_command_the_help_is_shown(run):
    assert "Commands:" in run(code=2).output


def test_a_single_class_is_named(run, data):
    write("same.csv", np.ones(90, dtype=int))
    message = refused(run("train", "same.csv", code=2))
    assert "same.csv: all samples are of the class 1, and two classes are needed (use --machine one-class" in message


def test_an_unknown_score_is_named(run, data):
    message = refused(run("tune", "classes.csv", "--scoring", "beauty", code=2))
    assert "--scoring beauty: scikit-learn has no score of this name" in message
    assert len(message) < 200


@pytest.mark.parametrize("name", ["svc", "nusvc", "svr", "linear-svc", "kernel-ridge"])
def test_onnx_files(run, data, name):
    """The graph has the steps before the machine, and gives its predictions."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    run("train", file_for(name), "m.onnx", "--machine", name, "--impute", "mean", "-q")
    run("train", file_for(name), "m.safetensors", "--machine", name, "--impute", "mean", "-q")
    expected = json.loads(run("predict", "m.safetensors", file_for(name), "--json").stdout)["prediction"]
    found = runtime.InferenceSession("m.onnx").run(None, {"X": X.astype(np.float32)})[0].ravel()
    if MACHINES[name].task == "classes":
        assert (found == expected).all()
    else:
        np.testing.assert_allclose(found, expected, atol=1e-4)
    assert "m.onnx: an ONNX graph is for ONNX runtimes" in refused(run("predict", "m.onnx", file_for(name), code=2))


def test_a_parameter_that_is_not_tuned(run, data):
    message = refused(run("tune", "classes.csv", "--alphas", 3, code=2))
    assert "--alphas: the machine svc is tuned over C, gamma" in message


def test_test_file(run, data):
    facts = json.loads(run("train", "classes.csv", "m.joblib", "--test", "classes.csv", "--json").stdout)
    assert (facts["n_train"], facts["n_test"]) == (90, 90)
    assert facts["train_scores"] == facts["test_scores"]
    assert facts["saved_on_all_samples"] is False  # nothing was set aside, so nothing had to be trained again
    text = Path("classes.csv").read_text().replace("target", "goal").replace("-1\n", "no\n").replace(",1\n", ",yes\n")
    Path("words.csv").write_text(text)
    message = refused(run("train", "classes.csv", "--test", "words.csv", "--drop", "b", code=2))
    assert "words.csv" in message


def test_probabilities_and_decisions(run, data):
    run("train", "classes.csv", "m.safetensors", "--probability", "cv", "-q")
    lines = run("predict", "m.safetensors", "classes.csv", "--probability", "--decisions").stdout.splitlines()
    assert lines[0] == "prediction,probability of -1,probability of 1,decision"
    table = np.array([line.split(",") for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(table[:, 1] + table[:, 2], 1.0)
    assert np.array_equal(np.sign(table[:, 3]), table[:, 0])
    run("train", "classes.csv", "n.safetensors", "-q")
    assert "trained without" in refused(run("predict", "n.safetensors", "classes.csv", "-b", 1, code=2))
    run("train", "values.csv", "v.safetensors", "-q")
    assert "are its decision values" in refused(run("predict", "v.safetensors", "values.csv", "--decisions", code=2))


def test_json_is_one_object_and_quiet_is_quiet(run, data):
    facts = json.loads(run("train", "classes.csv", "m.joblib", "--json").stdout)
    assert facts["relative_gap"] <= 1e-3
    assert facts["status"] == "CONVERGED"
    assert facts["model"] == "m.joblib"
    result = run("train", "classes.csv", "m.joblib", "-q")
    assert (result.stdout, result.stderr) == ("", "")


def test_a_picture_is_drawn_if_it_is_asked_for_or_there_is_no_file(run, data):
    pytest.importorskip("matplotlib")
    run("train", "classes.csv")
    assert not Path("maxmargin.png").exists()
    run("train", "--dataset", "moons")
    assert Path("maxmargin.png").exists()


# --- how it starts and what it looks like --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["tune", "-h"], ["--version"]])
def test_help_imports_nothing_heavy(words):
    """What takes time is imported when a command runs."""
    program = (
        "import sys\nfrom maxmargin.cli import main\ntry:\n    main()\nfinally:\n"
        "    heavy = {'numpy', 'scipy', 'sklearn', 'matplotlib', 'rich'}\n"
        "    print(sorted({name.partition('.')[0] for name in sys.modules} & heavy))"
    )
    process = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(find_spec("rich") is None, reason="needs rich")
def test_a_table_on_a_terminal(run, data, monkeypatch):
    from maxmargin.cli import report

    shown = []
    monkeypatch.setattr(report, "_show_table", shown.append)
    monkeypatch.setattr(report.sys, "stdout", Terminal())
    report.Report().show()
    assert shown == []
    told = report.Report()
    told.say("name", "text")
    told.show()
    assert shown == [[("name", "text")]]


class Terminal:
    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


def test_rich_draws_the_rows(capsys):
    pytest.importorskip("rich")
    from maxmargin.cli.report import _show_table

    _show_table([("accuracy", "[1, 2] test 98.6%")])
    assert capsys.readouterr().out.split() == ["accuracy", "[1,", "2]", "test", "98.6%"]


def test_main_is_the_console_script():
    assert main.__module__ == "maxmargin.cli"


@pytest.mark.parametrize("ending", ["joblib", "model"])
def test_no_part_of_a_model_is_left_behind(run, data, monkeypatch, ending):
    from maxmargin import io

    def full(_: object, path: Path) -> None:
        Path(path).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(joblib, "dump", full)
    monkeypatch.setattr(io, "write_libsvm_model", full)
    assert refused(run("train", "classes.csv", f"m.{ending}", code=2)).endswith(
        f"m.{ending}: cannot be written: No space left on device"
    )
    assert not Path(f"m.{ending}").exists()
