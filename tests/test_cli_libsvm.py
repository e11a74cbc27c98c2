"""The command line as LIBSVM's tools: letters, model files, range files and grids."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy.sparse import random as random_sparse
from sklearn.datasets import dump_svmlight_file, load_iris, make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_score

from maxmargin import SVC
from maxmargin.io import DataFileError, read_table
from maxmargin.io.range_file import read_ranges
from tests.command_line import refused, value

pytest.importorskip("click")


@pytest.fixture
def heart(run) -> Path:
    """Two classes, 1 and -1, as a LIBSVM file in the folder of `run`."""
    X, y = make_classification(120, 6, n_informative=4, flip_y=0.1, random_state=0)
    dump_svmlight_file(np.round(X, 3), 2 * y - 1, "heart", zero_based=False)
    return Path("heart")


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        ("-s 0 -t 0 -c 3", "--machine svc --kernel linear --C 3"),
        ("-s 0 -t 2 -c 3 -g 0.2 -e 1e-4 -m 50", "--machine svc --gamma 0.2 --C 3 --tol 1e-4 --cache-size 50"),
        ("-t 1 -d 2 -r 1 -g 0.1", "--kernel poly --degree 2 --coef0 1 --gamma 0.1"),
        ("-t 3 -g 0.01 -h 0", "--kernel sigmoid --gamma 0.01"),
        ("-s 1 -n 0.4", "--machine nusvc --nu 0.4"),
        ("-s 2 -n 0.4 -h 1", "--machine one-class --nu 0.4"),
        ("-s 3 -p 0.3", "--machine svr --epsilon 0.3"),
        ("-s 4 -n 0.4 -c 2", "--machine nusvr --nu 0.4 --C 2"),
        ("-w1 5 -w-1 0.5 -b 1", "--class-weight 1=5 --class-weight -1=0.5 --probability loo"),
        ("-b 0", ""),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the sigmoid kernel is not definite
def test_letters_are_aliases(run, heart, letters, words):
    run("train", *letters.split(), "-q", heart, "letters.joblib")
    run("train", heart, *words.split(), "--save", "words.joblib", "-q")
    ours, theirs = (joblib.load(name)[-1].get_params() for name in ("letters.joblib", "words.joblib"))
    assert ours == theirs


def test_h_alone_is_help(run):
    assert run("train", "-h").stdout.startswith("Usage: ")
    assert run("tune", "-h").stdout.startswith("Usage: ")


@pytest.mark.parametrize(
    "letters", ["-c 5 -g 0.2", "-c 5 -g 0.2 -w1 3", "-s 1 -n 0.3 -g 0.2", "-s 3 -c 2 -p 0.2 -t 0", "-s 2 -n 0.2 -g 0.3"]
)
def test_model_files_both_ways(run, heart, letters):
    """LIBSVM reads our model and predicts as we do; we read LIBSVM's and predict as it does."""
    svmutil = pytest.importorskip("libsvm.svmutil")
    y, x = svmutil.svm_read_problem("heart")
    run("train", *letters.split(), heart, "ours.model", "-q")
    theirs = svmutil.svm_train(y, x, f"{letters} -e 1e-6 -q")
    svmutil.svm_save_model("theirs.model", theirs)
    for file, model in (("ours.model", svmutil.svm_load_model("ours.model")), ("theirs.model", theirs)):
        expected, _, _ = svmutil.svm_predict(y, x, model, "-q")
        found = run("predict", file, heart, "out.txt")
        np.testing.assert_allclose(np.loadtxt("out.txt"), expected, atol=1e-5)
        assert found.stdout == ""
    pairs = zip(letters.split()[::2], letters.split()[1::2], strict=True)
    not_stored = [word for pair in pairs if pair[0][:2] in ("-c", "-n", "-p", "-w") for word in pair]
    assert "within" in run("audit", "theirs.model", heart, *not_stored, "--gap-tol", 1e-3).stdout


def test_a_model_file_is_not_of_scaled_data(run, heart):
    out = run("train", heart, "m.model").stdout
    assert "standardised" not in value(out, "trained on")
    assert "standardised" in value(run("train", heart, "m.joblib").stdout, "trained on")


def test_features_that_the_training_file_lacks(run):
    """Neither the model file nor the data say how many features there are; LIBSVM takes those that occur."""
    svmutil = pytest.importorskip("libsvm.svmutil")
    Path("train").write_text("1 1:1 3:0.5\n-1 2:1\n1 1:0.7\n-1 2:0.6 3:0.1\n" * 3)
    Path("wide").write_text("1 1:1 7:0.5\n-1 2:1 9:3\n")
    Path("narrow").write_text("1 1:1\n-1 2:1\n")
    run("train", "-c", 1, "-g", 0.5, "train", "m.model", "-q")
    model = svmutil.svm_load_model("m.model")
    for name in ("wide", "narrow"):
        _, _, expected = svmutil.svm_predict(*svmutil.svm_read_problem(name), model, "-q")
        lines = run("predict", "m.model", name, "--decisions").stdout.splitlines()[1:]
        found = np.array([float(line.split(",")[1]) for line in lines])
        sign = 1 if model.get_labels()[0] == 1 else -1  # LIBSVM decides for the class that it saw first
        np.testing.assert_allclose(sign * found, np.ravel(expected), atol=1e-6)
    run("train", "train", "n.joblib", "-q")
    message = refused(run("predict", "n.joblib", "wide", code=2))
    assert "wide, line 1: an index beyond the 3 features expected" in message
    run("train", "train", "--n-features", 9, "n.joblib", "-q")
    run("predict", "n.joblib", "wide")
    run("train", "train", "--test", "wide")


def test_model_and_file_in_the_order_of_svm_predict(run, heart):
    run("train", heart, "m.model", "-q")
    for command in ("predict", "audit"):
        assert "m.model is a model: MODEL comes first, then FILE" in refused(run(command, heart, "m.model", code=2))
        assert "MODEL -: only FILE can be -" in refused(run(command, "-", heart, code=2))


# --- precomputed kernels -------------------------------------------------------------------------------------------------------


def write_kernel_file(name: str, K, y) -> None:
    """A file as LIBSVM's README describes it: index 0 is the number of the sample, index j the kernel value with sample j."""
    numbered = np.hstack([np.arange(1, len(K) + 1)[:, None], K])
    lines = [" ".join(f"{j}:{value!r}" for j, value in enumerate(row)) for row in numbered.tolist()]
    Path(name).write_text("".join(f"{label} {line}\n" for label, line in zip(y, lines, strict=True)))


@pytest.fixture
def kernel_files(heart) -> tuple[Path, Path]:
    """The first 80 samples of heart, and the others, as rows of a kernel matrix."""
    table = read_table(heart)
    K, y = rbf_kernel(table.X, table.X[:80], gamma=0.2), table.y
    K[:, 40] = 0.0  # a value that is zero everywhere can be left out
    K[40] = 0.0
    write_kernel_file("kernel", K[:80], y[:80])
    write_kernel_file("kernel.t", K[80:], y[80:])
    return Path("kernel"), Path("kernel.t")


@pytest.mark.parametrize("letters", ["-s 0 -c 2", "-s 1 -n 0.3", "-s 2 -n 0.2", "-s 3 -c 2 -p 0.2", "-s 4 -c 2 -n 0.4"])
def test_precomputed_kernels_as_in_libsvm(run, kernel_files, letters):
    svmutil = pytest.importorskip("libsvm.svmutil")
    train, test = kernel_files
    y, x = svmutil.svm_read_problem("kernel")
    run("train", "-t", 4, *letters.split(), "-e", 1e-6, "-q", train, "ours.model")
    svmutil.svm_save_model("theirs.model", svmutil.svm_train(y, x, f"-t 4 {letters} -e 1e-6 -q"))
    run("train", "-t", 4, *letters.split(), "-e", 1e-6, "-q", train, "ours.safetensors")
    queries = svmutil.svm_read_problem("kernel.t")
    expected, _, _ = svmutil.svm_predict(*queries, svmutil.svm_load_model("theirs.model"), "-q")
    for model in ("ours.model", "theirs.model", "ours.safetensors"):
        run("predict", model, test, "out.txt")
        np.testing.assert_allclose(np.loadtxt("out.txt"), expected, atol=1e-4)
    np.testing.assert_allclose(svmutil.svm_predict(*queries, svmutil.svm_load_model("ours.model"), "-q")[0], expected, atol=1e-4)
    not_stored = letters.split()[2:]
    assert "within" in run("audit", "theirs.model", train, *not_stored, "--gap-tol", 1e-3).stdout
    assert "within" in run("audit", "ours.safetensors", train, "--gap-tol", 1e-3).stdout


def test_precomputed_kernels_are_split_by_rows_and_columns(run, kernel_files):
    """Each test sample has kernel values with training samples only; so the scores are those of the features."""
    train, test = kernel_files
    table = read_table(train, zero_based=True)
    K = table.X.toarray()[:, 1:]
    parts = StratifiedKFold(4, shuffle=True, random_state=0)
    expected = cross_val_score(SVC(kernel="precomputed", C=2), K, table.y, cv=parts).mean()
    found = run("train", "-t", 4, "-c", 2, "-v", 4, train).stdout
    assert value(found, "accuracy").startswith(f"{expected:.1%}")
    np.savetxt("kernel.csv", np.c_[K, table.y], delimiter=",")
    of_file, of_csv = (json.loads(run("train", "-t", 4, file, "--json").stdout) for file in (train, "kernel.csv"))
    assert of_file["test_scores"] == of_csv["test_scores"]
    run("train", "-t", 4, train, "--test", test)
    for letters in ("-s 0", "-s 1 --nus 0.1,0.3", "-s 3 --Cs 3"):
        run("tune", "-t", 4, *letters.split(), "-v", 3, train)


def test_kernel_files_that_do_not_fit(run, heart, kernel_files):
    train, test = kernel_files
    assert "index 0 does not number the samples 1, 2, …, 120" in refused(run("train", "-t", 4, heart, code=2))
    message = "kernel.t: 80 kernel values for a sample, where there must be one for each of 40 training samples"
    assert message in refused(run("train", "-t", 4, test, code=2))
    Path("wide").write_text(test.read_text().splitlines()[0] + " 81:1\n")
    run("train", "-t", 4, "-q", train, "m.safetensors")
    assert "wide: 81 kernel values for a sample" in refused(run("predict", "m.safetensors", "wide", code=2))
    assert "--standardize is for features" in refused(run("train", "-t", 4, train, "--standardize", code=2))
    assert "a kernel matrix has none" in refused(run("train", "-t", 4, train, "--plot", "p.png", code=2))
    assert "--kernel precomputed is for a FILE" in refused(run("train", "-t", 4, code=2))


# --- scale ---------------------------------------------------------------------------------------------------------------------


def test_scale_to_a_range(run, heart):
    run("scale", "-l", 0, "-u", 2, "-s", "range", heart, "-o", "scaled")
    scaled, plain = (read_table(name).X.toarray() for name in ("scaled", "heart"))
    np.testing.assert_allclose(scaled.min(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.max(axis=0), 2)
    expected = 2 * (plain - plain.min(axis=0)) / (plain.max(axis=0) - plain.min(axis=0))
    np.testing.assert_allclose(scaled, expected, atol=1e-12)
    assert run("scale", "-r", "range", heart).stdout == Path("scaled").read_text()


def test_range_file_is_that_of_svm_scale(run):
    """The lines of a file that svm-scale wrote, with a constant feature left out."""
    Path("data").write_text("1 1:1 2:5 3:7\n-1 1:3 2:5 3:9\n")
    Path("range").write_text("x\n-1 1\n1 1 3\n3 7 9\n")
    text = run("scale", "-r", "range", "data").stdout
    assert text == "1 1:-1 3:-1\n-1 1:1 3:1\n"
    assert run("scale", "-s", "ours", "data").stdout == text
    ours, theirs = read_ranges("ours"), read_ranges("range")
    assert np.array_equal(ours.smallest, theirs.smallest, equal_nan=True)
    assert np.array_equal(ours.largest, theirs.largest, equal_nan=True)
    # svm-scale reads three numbers from each line until one is not; no line of ours may stop it before the last feature
    lines = Path("ours").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["x", "-1.0", "1", "3"]


def test_scale_to_unit_variance_and_by_name(run, iris_csv):
    run("scale", iris_csv, "--standard", "-s", "range", "-o", "scaled.csv")
    scaled = read_table("scaled.csv")
    np.testing.assert_allclose(scaled.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.X.std(axis=0), 1)
    assert scaled.feature_names == read_table(iris_csv).feature_names
    rows = [line.split(",") for line in iris_csv.read_text().splitlines()]
    Path("turned.csv").write_text("\n".join(",".join([row[4], *row[3::-1]]) for row in rows) + "\n")
    run("scale", "-r", "range", "turned.csv", "-o", "turned-scaled.csv")
    assert np.array_equal(read_table("turned-scaled.csv").X, scaled.X)


def test_scaling_keeps_the_sparse_format(run):
    X = random_sparse(30, 5, 0.4, format="csr", random_state=0)
    dump_svmlight_file(X, np.arange(30) % 2, "sparse.svm", zero_based=False)
    run("scale", "sparse.svm", "-l", 0, "-o", "out.svm")
    scaled = read_table("out.svm", n_features=5).X
    np.testing.assert_allclose(scaled.toarray(), X.toarray() / X.toarray().max(axis=0))
    assert scaled.nnz == X.nnz


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("-1 1\n", 1, "it must begin with the line x"),
        ("\ufeff", 1, "it must begin with the line x"),
        ("y\n-1 1\n0 1\n", 4, "it must begin with the line x, after the three lines of a target"),
        ("y\n-1 1\n0\nx\n-1 1\n", 3, "'0' is not 2 finite numbers"),
        ("y\n-1 1\n0 1\nx\n", 5, "'' is not 2 finite numbers"),
        ("x\n", 2, "'' is not 2 finite numbers"),
        ("x\n-1 1\n1 2\n", 3, "'1 2' is not 3 finite numbers"),
        ("x\n-1 1\n1 2 nan\n", 3, "is not 3 finite numbers"),
        ("x\n-1 1\n1 2 3\n1 2 3\n", 4, "the index 1 is not a whole number from 1 to 100,000,000, or is there twice"),
        ("x\n-1 1\n1e12 2 3\n", 3, "the index 1e+12 is not a whole number"),
        ("x\n-1 1\n# columns {\n", 3, "the line of the column names is damaged"),
        (
            'x\n-1 1\n2 0 1\n# columns {"features": ["a"], "target": null, "left_out": []}\n',
            None,
            "1 columns are named, and feature 2",
        ),
    ],
)
def test_damaged_range_files(run, tmp_path, content, line, reason):
    Path("range").write_text(content)
    with pytest.raises(DataFileError) as caught:
        read_ranges("range")
    assert caught.value.line == line
    assert reason in str(caught.value)
    Path("data").write_text("1 1:1\n-1 1:2\n")
    assert reason in refused(run("scale", "-r", "range", "data", code=2))


def test_the_target_is_scaled_too(run):
    """The file of ranges is that of `svm-scale -y 0 1`, and the scaled values are those of its formula."""
    Path("data").write_text("3 1:1\n5 1:2\n4.5 1:4\n")
    text = run("scale", "-y", 0, 1, "-s", "range", "data").stdout
    np.testing.assert_allclose([float(line.split()[0]) for line in text.splitlines()], [0, 1, 0.75], atol=1e-15)
    assert Path("range").read_text() == "y\n0.0 1.0\n3.0 5.0\nx\n-1.0 1.0\n1 1.0 4.0\n"
    assert run("scale", "-r", "range", "data").stdout == text
    Path("other").write_text("7 1:1\n")
    assert run("scale", "-r", "range", "other").stdout.split()[0] == "2"
    Path("constant").write_text("3 1:1\n3 1:2\n")
    assert [line.split()[0] for line in run("scale", "-y", -1, 1, "constant").stdout.splitlines()] == ["-1", "-1"]


def test_scale_refuses(run, heart):
    assert "-y 1 0: the first must be smaller" in refused(run("scale", heart, "-y", 1, 0, code=2))
    Path("words.csv").write_text("a,class\n1,yes\n2,no\n")
    assert "words.csv has labels that are text, such as 'yes'" in refused(run("scale", "words.csv", "-y", 0, 1, code=2))
    assert "-y and --restore" in refused(run("scale", heart, "-y", 0, 1, "-r", "b", code=2))
    assert "--lower 2 and --upper 1: the first must be smaller" in refused(run("scale", heart, "-l", 2, "-u", 1, code=2))
    assert "--save and --restore: give one of them" in refused(run("scale", heart, "-s", "a", "-r", "b", code=2))
    assert "absent: no such file" in refused(run("scale", heart, "-r", "absent", code=2))
    run("scale", heart, "-s", "heart.range", "-o", "scaled")
    message = refused(run("scale", "words.csv", "-r", "heart.range", code=2))
    assert "words.csv has 1 features, and the ranges are of 6" in message


# --- grid.py -------------------------------------------------------------------------------------------------------------------


def test_grid_of_powers_of_two(run, heart):
    out = run("tune", "-log2c", "-1,3,2", "-log2g", "-4,0,2", "-v", 3, heart, "--scores", "s.csv").stdout
    assert value(out, "grid") == "3 values of C x 3 values of gamma, 3 folds"
    rows = [line.split(",")[:2] for line in Path("s.csv").read_text().splitlines()[1:]]
    assert {(float(C), float(gamma)) for C, gamma in rows} == {(C, gamma) for C in (0.5, 2, 8) for gamma in (0.0625, 0.25, 1)}


@pytest.mark.parametrize("exponents", ["1,2", "a,b,c", "0,10,0", "0,-5,1", "1,0,1", "0,1e9,1"])
def test_exponents_that_are_no_range(run, heart, exponents):
    assert "is not a range of exponents begin,end,step" in refused(run("tune", heart, "--log2c", exponents, code=2))


def test_both_ways_to_give_a_grid(run, heart):
    assert "--Cs and --log2c: give one of them" in refused(run("tune", heart, "--log2c", "0,2,1", "--Cs", 3, code=2))


def test_text_labels_have_no_place_in_a_model_file(run, iris_csv):
    message = refused(run("train", iris_csv, "m.model", code=2))
    assert "label" in message
    assert load_iris().target_names[0] in message


def test_a_machine_without_samples_predicts_sparse_files(run, heart):
    """A machine that was standardised is given dense samples, whatever the file; one that keeps no samples has no say in it."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    table = read_table(heart)
    pipeline = make_pipeline(StandardScaler(), LinearSVC()).fit(table.X.toarray(), table.y)
    joblib.dump(pipeline, "linear.joblib")
    labels = run("predict", "linear.joblib", heart).stdout.split()
    assert labels == list(map(str, pipeline.predict(table.X.toarray())))
