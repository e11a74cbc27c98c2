"""The command line: what it prints, writes and refuses, and with which exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import dump_svmlight_file, load_iris, make_classification

from maxmargin import SVC, SVCCV
from maxmargin.cli import main
from tests.command_line import refused, value

pytest.importorskip("click")


# --- train -------------------------------------------------------------------------------------


def test_the_demo(run):
    pytest.importorskip("matplotlib")
    out = run("train").stdout
    assert value(out, "data").startswith("breast_cancer: 569 samples, 30 features, 2 classes")
    assert value(out, "trained on").startswith("426 samples, 143 set aside for the test")
    train, test = (float(word.strip("%,")) for word in value(out, "accuracy").split()[1::2])
    assert train > 97
    assert test > 93
    assert float(value(out, "margin 2/||w||")) > 0
    assert " free (on the margin), " in value(out, "support vectors")
    assert "fit " in value(out, "time")
    assert "gap" in out
    assert Path("maxmargin.png").read_bytes().startswith(b"\x89PNG")


def test_numbers_are_the_models(run):
    out = run("train", "--dataset", "moons", "--no-plot", "--save", "m.joblib", "-C", 3, "--test-size", 0).stdout
    machine = joblib.load("m.joblib").steps[-1][1]
    assert isinstance(machine, SVC)
    assert machine.C == 3
    assert value(out, "support vectors").startswith(f"{len(machine.support_)} of 400 samples")
    assert value(out, "margin 2/||w||") == f"{2 * machine.margin_:.4g}"
    assert value(out, "status") == machine.status_.value
    assert str(machine.certificate_) in out
    assert not Path("maxmargin.png").exists()


def test_csv_file_and_picture(run, iris_csv):
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # so that text is text
        out = run("train", iris_csv, "--plot", "iris.svg", "--test-size", 0.2).stdout
    assert "150 samples, 4 features, 3 classes (setosa: 50," in value(out, "data")
    assert value(out, "trained on").startswith("120 samples, 30 set aside")
    picture = Path("iris.svg").read_text()
    assert "trained for this picture on the first two" in picture
    assert "setosa (40)" in picture
    assert "over 3 machines" in value(out, "margin 2/||w||")


def test_target_and_no_test(run, iris_csv):
    out = run("train", iris_csv, "--target", "4", "--test-size", 0, "--no-plot").stdout
    assert value(out, "trained on").startswith("150 samples, no test")
    assert "test" not in value(out, "accuracy")


def test_sparse_file_is_not_standardised_unless_asked(run, tmp_path):
    X, y = make_classification(120, 20, random_state=0)
    X[np.abs(X) < 1] = 0
    dump_svmlight_file(X, y, str(tmp_path / "s.svm"))
    out = run("train", "s.svm", "--no-plot").stdout
    assert "standardised" not in value(out, "trained on")
    assert "not zero" in value(out, "data")
    assert "standardised" in run("train", "s.svm", "--no-plot", "--standardize").stdout


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (("--kernel", "linear"), {"kernel": "linear"}),
        (("--C", "inf", "--gamma", "auto"), {"C": np.inf, "gamma": "auto"}),
        (("--gamma", "0.5"), {"gamma": 0.5}),
        (("--sigma", "2"), {"sigma": 2.0}),
        (("--loss", "squared_hinge"), {"loss": "squared_hinge"}),
        (("--kernel", "poly", "--degree", "2", "--coef0", "1"), {"degree": 2, "coef0": 1.0}),
        (("--tol", "1e-4", "--gap-tol", "1e-5"), {"tol": 1e-4, "gap_tol": 1e-5}),
        (("--max-seconds", "9", "--cache-size", "50"), {"max_seconds": 9.0, "cache_size": 50.0}),
        (("--multi-class", "ovr"), {"multi_class": "ovr"}),
    ],
)
def test_options_reach_the_machine(run, option, expected):
    run("train", "--dataset", "iris", "--no-plot", "--save", "m.joblib", *option)
    parameters = joblib.load("m.joblib").steps[-1][1].get_params()
    assert {name: parameters[name] for name in expected} == expected
    rest = {k: v for k, v in parameters.items() if k not in {*expected, "kernel"}}
    assert rest == {k: v for k, v in SVC().get_params().items() if k in rest}


def test_progress_bar_is_not_saved(run):
    pytest.importorskip("tqdm")
    run("train", "--dataset", "iris", "--no-plot", "--progress", "--save", "m.joblib")
    assert joblib.load("m.joblib").steps[-1][1].callbacks is None


# --- Ctrl-C ------------------------------------------------------------------------------------


@pytest.fixture
def interrupt(monkeypatch):
    """Make every fit end as one that Ctrl-C has ended: a usable model, and the interrupt raised."""
    fit = SVC.fit

    def interrupted_fit(self, X, y, sample_weight=None):
        fit(self, X, y, sample_weight)
        raise KeyboardInterrupt

    monkeypatch.setattr(SVC, "fit", interrupted_fit)


@pytest.mark.parametrize("options", [(), ("--save", "mine.joblib")])
def test_interrupted_fit_is_reported_and_saved(run, interrupt, options):
    result = run("train", "--dataset", "iris", *options, code=130)
    assert "interrupted: this is the model reached so far" in result.stderr
    assert value(result.stdout, "accuracy").startswith("train")
    path = "mine.joblib" if options else "maxmargin-interrupted.joblib"
    assert f"model saved to {path}" in result.stdout
    assert joblib.load(path).predict(load_iris().data).shape == (150,)


def test_interrupted_before_there_is_a_model(run, monkeypatch):
    def fit(self, X, y, sample_weight=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(SVC, "fit", fit)
    assert run("train", "--dataset", "iris", code=130).stderr == "interrupted\n"
    assert list(Path().iterdir()) == []


# --- tune --------------------------------------------------------------------------------------

FEW = ("--Cs", "1,10", "--gammas", "2", "--folds", 3)


def test_tune(run, iris_csv):
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        result = run("tune", iris_csv, *FEW, "--plot", "grid.svg", "--save", "m.joblib", "--progress")
    out = result.stdout
    assert value(out, "grid") == "2 values of C x 2 values of gamma, 3 folds"
    assert "machine 12/12" in result.stderr
    machine = joblib.load("m.joblib").steps[-1][1]
    assert isinstance(machine, SVC)
    assert value(out, "best").startswith(f"C = {machine.C:.4g}, gamma = {machine.gamma:.4g}: accuracy 0.9")
    assert float(value(out, "relative gap").split()[2]) < 1e-2
    assert (
        f"model saved to m.joblib, trained again on all 150 samples: relative gap {machine.certificate_.relative_gap:.1e}" in out
    )
    assert value(out, "trained on").startswith("112 samples, 38 set aside for the test, features standardised")
    picture = Path("grid.svg").read_text()
    assert "mean test score" in picture
    assert f"at C = {machine.C:.4g}" in picture
    assert "accuracy" in run("predict", "m.joblib", iris_csv).stderr


def test_tune_by_another_score_and_without_files(run):
    out = run("tune", "--dataset", "moons", "--scoring", "roc_auc", *FEW, "--kernel", "laplacian").stdout
    assert ": roc_auc 0.9" in value(out, "best")
    assert "laplacian kernel" in value(out, "model")
    assert list(Path().iterdir()) == []


def test_tune_again_is_the_same(run):
    first, second = (run("tune", "--dataset", "wine", *FEW).stdout for _ in range(2))
    assert value(first, "best") == value(second, "best")


def test_interrupted_tuning_tells_the_best_so_far(run, monkeypatch):
    fit = SVCCV.fit

    def interrupted_fit(self, X, y):
        fit(self, X, y)
        del self.best_estimator_
        raise KeyboardInterrupt

    monkeypatch.setattr(SVCCV, "fit", interrupted_fit)
    out = run("tune", "--dataset", "iris", *FEW, "--save", "m.joblib", code=130).stdout
    assert value(out, "best").startswith("C = ")
    assert not Path("m.joblib").exists()


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_tuning_without_time(run):
    result = run("tune", "--dataset", "digits", "--max-seconds", 1e-9, code=2)
    assert "0 of 500 fits done" in value(result.stdout, "grid")
    assert "warning: The grid was ended early (MAX_SECONDS): 500 of 500 fits are missing" in result.stderr
    assert result.stderr.splitlines()[-1] == "Error: --max-seconds 1e-09: too few for one point of the grid on all folds"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--Cs", "a,b"), "'a,b' is not a count, and not numbers between commas"),
        (("--Cs", "0"), "The 'Cs' parameter of SVCCV must be a sequence of positive numbers, or how many of them to try"),
        (("--gammas", "1,-1"), "The 'gammas' parameter of SVCCV must be positive"),
        (("--folds", "1"), "1 is not in the range x>=2"),
        (("--folds", "1000"), "number of splits n_splits=1000 greater than the number of samples"),
        (("--scoring", "beauty"), "beauty"),
        (("--kernel", "precomputed"), "--kernel precomputed is for a FILE of kernel values; the embedded sets have features"),
        (("--plot", "grid.jpgg"), "the ending must be one of"),
        (("--save", "absent/m.joblib"), "there is no folder"),
    ],
)
def test_tune_refuses(run, words, message):
    result = run("tune", "--dataset", "iris", *words, code=2)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert list(Path().iterdir()) == []


# --- predict -----------------------------------------------------------------------------------


def test_predict(run, iris_csv):
    run("train", iris_csv, "--no-plot", "--save", "m.joblib")
    result = run("predict", "m.joblib", iris_csv)
    labels = result.stdout.split()
    species = load_iris().target_names[load_iris().target]
    accuracy = np.mean(np.array(labels) == species)
    assert accuracy > 0.9
    assert f"accuracy {accuracy:.1%}" in result.stderr

    bare = [line.rpartition(",")[0] for line in iris_csv.read_text().splitlines()]
    Path("bare.csv").write_text("\n".join(bare))
    result = run("predict", "m.joblib", "bare.csv", "-o", "labels.txt")
    assert Path("labels.txt").read_text().split() == labels
    assert result.stdout == ""
    assert "accuracy" not in result.stderr


def test_predict_libsvm_file_that_lacks_the_last_features(run, tmp_path):
    X, y = make_classification(80, 6, random_state=0)
    dump_svmlight_file(X, y, str(tmp_path / "train.svm"), zero_based=False)
    Path("test.svm").write_text("0 1:1.5\n1 2:-1\n")
    run("train", "train.svm", "--no-plot", "--save", "m.joblib")
    assert len(run("predict", "m.joblib", "test.svm").stdout.split()) == 2


def test_predict_counts_a_label_of_another_type_as_an_error(run, tmp_path):
    rows = [f"{i},{i % 7},{1 if i > 10 else -1}\n" for i in range(20)]
    (tmp_path / "train.csv").write_text("".join(rows))
    run("train", "train.csv", "--save", "m.joblib")
    (tmp_path / "test.csv").write_text("".join([*rows[:9], "9,2,0.25\n"]))
    assert "(9 of 10)" in run("predict", "m.joblib", "test.csv").stderr


def test_predict_refuses(run, iris_csv):
    run("train", "--dataset", "moons", "--no-plot", "--save", "m.joblib")
    message = refused(run("predict", "m.joblib", iris_csv, code=2))
    assert "line 1: no column x, y, which the model was trained on" in message
    assert "absent.joblib: no such file" in refused(run("predict", "absent.joblib", "x", code=2))
    assert "not a model" in refused(run("predict", iris_csv, iris_csv, code=2))
    joblib.dump({"a": 1}, "dict.joblib")
    assert "holds a dict" in refused(run("predict", "dict.joblib", iris_csv, code=2))


# --- audit -------------------------------------------------------------------------------------


def test_audit_of_what_train_saved(run, iris_csv):
    run("train", iris_csv, "--test-size", 0, "--no-plot", "--save", "m.joblib")
    out = run("audit", "m.joblib", iris_csv, "--gap-tol", 1e-3).stdout
    assert out.startswith("audit of SVC by maxmargin, 3 machines together")
    assert "of the optimum, relative; its stopping tolerance held." in out


def test_audit_of_a_model_of_scikit_learn(run, iris_csv):
    joblib.dump(sklearn.svm.SVC(tol=0.1).fit(*load_iris(return_X_y=True)), "m.joblib")
    dump_svmlight_file(*load_iris(return_X_y=True), "iris.svm", zero_based=False)
    out = run("audit", "m.joblib", "iris.svm", "--gap-tol", 1e-6, code=1).stdout
    assert value(out, "  KKT violation").endswith("(tol=0.1)")
    assert "audit of SVC by scikit-learn, 3 machines together" in out
    message = refused(run("audit", "m.joblib", iris_csv, code=2))
    assert "y has the label 'setosa', which the model does not know (it knows 0, 1, 2)" in message


def test_audit_of_a_libsvm_model_file(run):
    svmutil = pytest.importorskip("libsvm.svmutil")
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, "iris.svm", zero_based=False)
    svmutil.svm_save_model("iris.model", svmutil.svm_train(y, X, "-c 2 -q"))
    assert "within" in run("audit", "iris.model", "iris.svm", "-C", 2, "--gap-tol", 1e-3).stdout
    assert "C: this model of LIBSVM does not say it: pass the value of the fit, C=... (or --C)" in refused(
        run("audit", "iris.model", "iris.svm", code=2)
    )


def test_audit_refuses(run, iris_csv):
    assert "absent.joblib: no such file" in refused(run("audit", "absent.joblib", "x", code=2))
    joblib.dump({"a": 1}, "dict.joblib")
    assert "dict.joblib: model is a dict" in refused(run("audit", "dict.joblib", iris_csv, code=2))


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, (), "data.csv: no such file"),
        ("", (), "data.csv: the file is empty"),
        ("a,b,y\n1,2,0\n3,4\n", (), "data.csv, line 3: 2 values where the header has 3"),
        ("a,b,y\n1,2,0\n3,x,1\n", (), "data.csv, line 3: 'x' in column 'b' is not a number"),
        ("1,2,0\n3,4,1\n", ("--target", "size"), "target='size': no such column"),
        ("1,2,0.5\n3,4,1.5\n5,6,2.5\n", ("--machine", "svc"), "the target column has fractions"),
        ("1,2,a\n3,4,b\n5,6,b\n", ("--machine", "svr"), "the target is text, such as 'a', and svr needs numbers"),
        ("1,2,a\n3,4,a\n5,6,b\n", (), "class b has a single sample"),
        ("1,2,a\n3,4,a\n5,6,a\n", (), "class"),
        ("1,2,a\n3,4,b\n", ("--dataset", "iris"), "give one of them"),
    ],
)
def test_bad_files(run, content, options, message):
    if content is not None:
        Path("data.csv").write_text(content)
    assert message in refused(run("train", "data.csv", *options, code=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-C", "-1"), "The 'C' parameter of SVC must be positive"),
        (("--gamma", "-2"), "The 'gamma' parameter of SVC must be positive"),
        (("--kernel", "rfb"), "rbf"),
        (("--kernel", "precomputed"), "precomputed"),
        (("--loss", "log"), "squared_hinge"),
        (("--target", "y"), "--target is for a FILE"),
        (("--save", "absent/m.joblib"), "there is no folder absent"),
    ],
)
def test_bad_options(run, options, message):
    assert message in refused(run("train", "--no-plot", *options, code=2))


@pytest.mark.parametrize(
    ("path", "message"),
    [("absent/p.png", "there is no folder 'absent'"), ("p.docx", "the ending must be one of")],
)
def test_bad_picture_path_is_refused_before_the_fit(run, monkeypatch, path, message):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(SVC, "fit", lambda *_: pytest.fail("fitted"))
    assert message in refused(run("train", "--plot", path, code=2))


def test_options_that_click_refuses(run):
    assert "'wide' is not a number" in run("train", "--gamma", "wide", code=2).stderr
    assert "--test-size" in run("train", "--test-size", "1.5", code=2).stderr


# --- extras ------------------------------------------------------------------------------------


def test_version(run):
    from importlib.metadata import version

    assert run("--version").stdout.strip().endswith(version("maxmargin"))


def test_without_click_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "maxmargin.cli.commands")
    with pytest.raises(SystemExit, match=r"pip install 'maxmargin\[cli\]'"):
        main()


def test_without_matplotlib_there_is_a_report_and_no_picture(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    result = run("train", "--dataset", "moons")
    assert "pip install 'maxmargin[plot]'" in result.stderr
    assert value(result.stdout, "accuracy")
    assert "maxmargin[plot]" in refused(run("train", "--plot", "p.png", code=2))
