"""The command line and the columns of files: their names and order, text, booleans, missing values and indices."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.io import Columns, DataFileError, read_csv, read_table, write_table
from tests.command_line import refused, value

pytest.importorskip("click")

RNG = np.random.default_rng(0)
N = 60
PEOPLE = {
    "age": [f"{age}" for age in RNG.integers(18, 80, N)],
    "port": [str(port) for port in RNG.choice(["north", "south", "none"], N)],
    "member": [str(bool(flag)) for flag in RNG.integers(0, 2, N)],
    "fare": [f"{fare:.2f}" for fare in RNG.exponential(30, N)],
}
SURVIVED = ["yes" if port == "north" else "no" for port in PEOPLE["port"]]


def as_csv(columns: dict[str, list[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(as_csv({**PEOPLE, "survived": SURVIVED}))
    return path


# --- by name -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["joblib", "safetensors"])
def test_columns_in_another_order_give_the_same_labels(run, people, ending):
    run("train", people, f"m.{ending}", "--one-hot")
    labels = run("predict", f"m.{ending}", people).stdout
    assert set(labels.split()) == {"yes", "no"}
    for names in (["survived", *reversed(PEOPLE)], ["fare", "port", "age", "member"]):
        Path("other.csv").write_text(as_csv({name: {**PEOPLE, "survived": SURVIVED}[name] for name in names}))
        result = run("predict", f"m.{ending}", "other.csv")
        assert result.stdout == labels
        assert ("accuracy" in result.stderr) == ("survived" in names)


@given(order=st.permutations(range(5)))
@settings(max_examples=30, deadline=None)
def test_any_order_of_the_columns_is_the_same_table(tmp_path_factory, order):
    folder = tmp_path_factory.mktemp("order")
    everything = {**PEOPLE, "survived": SURVIVED}
    (folder / "a.csv").write_text(as_csv(everything))
    (folder / "b.csv").write_text(as_csv({name: everything[name] for name in (list(everything)[k] for k in order)}))
    first = read_csv(folder / "a.csv", text="one-hot")
    second = read_csv(folder / "b.csv", columns=Columns.of(first))
    assert second.feature_names == first.feature_names
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.y, second.y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda columns: columns.pop("fare"), "no column fare, which the model was trained on"),
        (lambda columns: columns.update(Fare=columns.pop("fare")), "trained on (and it does not know Fare)"),
        (lambda columns: columns.update({"": ["1"] * N}), "without the column '' (leave it out: --drop 4)"),
        (
            lambda columns: columns.update(zip=["1"] * N),
            "the model was trained without the column zip (leave it out: --drop 'zip')",
        ),
        (
            lambda columns: columns.update(port=["west"] * N),
            "line 2: 'west' in column 'port': a category that the model does not",
        ),
        (lambda columns: columns.update(age=["old"] * N), "line 2: 'old' in column 'age' is not a number"),
        (lambda columns: columns.update(age=[""] * N), "line 2: '' in column 'age': a missing value"),
    ],
)
def test_columns_that_do_not_fit_are_named(run, people, change, message):
    run("train", people, "m.joblib", "--one-hot", "-q")
    columns = dict(PEOPLE)
    change(columns)
    Path("other.csv").write_text(as_csv(columns))
    assert message in refused(run("predict", "m.joblib", "other.csv", code=2))


def test_an_extra_column_can_be_dropped(run, people):
    run("train", people, "m.joblib", "--one-hot", "-q")
    Path("other.csv").write_text(as_csv({"zip": ["1"] * N, **PEOPLE}))
    assert run("predict", "m.joblib", "other.csv", "--drop", "zip").stdout == run("predict", "m.joblib", people).stdout


def test_a_file_without_header_is_taken_in_order_with_a_note(run, iris_csv):
    run("train", iris_csv, "m.joblib", "-q")
    Path("bare.csv").write_text(iris_csv.read_text().partition("\n")[2])
    result = run("predict", "m.joblib", "bare.csv")
    assert "no header: its columns are taken in the order of training" in result.stderr
    assert result.stdout == run("predict", "m.joblib", iris_csv).stdout


def test_columns_of_the_same_name_are_refused_where_they_would_be_guessed(write_csv):
    first = read_csv(write_csv("a,b,y\n1,2,0\n3,4,1\n"))
    with pytest.raises(DataFileError, match="several columns are named 'a'"):
        read_csv(write_csv("b,a,a,y\n1,2,3,0\n"), columns=Columns.of(first))


@pytest.fixture
def write_csv(tmp_path):
    def write(content: str) -> Path:
        (tmp_path / "data.csv").write_text(content)
        return tmp_path / "data.csv"

    return write


# --- the index -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
@pytest.mark.parametrize("first", [0, 1])
def test_an_index_is_pointed_out_and_dropped(run, people, name, first):
    everything = {name: [str(k + first) for k in range(N)], **PEOPLE, "survived": SURVIVED}
    Path("indexed.csv").write_text(as_csv(everything))
    message = refused(run("train", "indexed.csv", "--one-hot", code=2))
    assert f"column 1 has no name and counts {first}, {first + 1}, {first + 2}, …: an index" in message
    run("train", "indexed.csv", "m.joblib", "--one-hot", "--drop", 0, "-q")
    run("train", people, "n.joblib", "--one-hot", "-q")
    labels = run("predict", "n.joblib", people).stdout
    assert run("predict", "m.joblib", people).stdout == labels
    assert run("predict", "m.joblib", "indexed.csv").stdout == labels  # the model knows what was left out


def test_numbers_without_a_name_that_do_not_count_are_a_feature(write_csv):
    table = read_csv(write_csv(",a,y\n5,1,0\n3,2,1\n9,3,0\n"))
    assert table.feature_names == ("", "a")


# --- text, booleans and missing values -----------------------------------------------------------------------------------------


def test_what_text_booleans_and_gaps_become(write_csv):
    table = read_csv(write_csv("c,b,x,y\nred,True,1,0\n,FALSE,?,1\nblue,true,3,0\n"), text="one-hot", missing="keep")
    assert table.feature_names == ("c=blue", "c=red", "b", "x")
    np.testing.assert_array_equal(table.X, [[0, 1, 1, 1], [0, 0, 0, np.nan], [1, 0, 1, 3]])


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("c,x,y\nred,1,0\nblue,2,1\n", 2, "'red' in column 'c' is not a number (--one-hot"),
        ("c,x,y\n1,1,0\n2,2,1\nx,3,1\n", 4, "'x' in column 'c' is not a number"),  # a misprint among numbers is no category
        ("b,x,y\ntrue,1,0\n2,2,1\n", 2, "'true' in column 'b' is not a number"),
        ("c,x,y\nred,1,0\n,2,1\n", 3, "'' in column 'c': a missing value"),
        ("c,x,y\n1,inf,0\nb,2,1\na,3,1\n", 2, "inf in column 'x'"),
    ],
)
def test_what_is_refused(write_csv, content, line, reason):
    text = "refuse" if "one-hot" in reason or "true" in reason else "one-hot"
    with pytest.raises(DataFileError) as caught:
        read_csv(write_csv(content), text=text)
    assert caught.value.line == line
    assert reason in str(caught.value)


def test_identifiers_are_no_categories(write_csv):
    content = "name,x,y\n" + "".join(f"n{k},{k * k},{k % 2}\n" for k in range(300))
    with pytest.raises(DataFileError, match=r"column 'name' has 300 different texts: no category \(leave it out"):
        read_csv(write_csv(content), text="one-hot")
    assert read_csv(write_csv(content), text="one-hot", drop=["name"]).feature_names == ("x",)


def test_options_of_reading_that_do_not_exist(write_csv):
    with pytest.raises(ValueError, match="missing='drop': must be 'refuse' or 'keep'"):
        read_csv(write_csv("1,2\n"), missing="drop")


def test_missing_values_in_data_that_are_scaled_chosen_and_converted(run, write_csv):
    Path("holes.csv").write_text("a,b,c,class\n1,,,no\n3,4,,yes\n,6,,no\n5,8,,yes\n")
    scaled = read_csv(write_csv(run("scale", "holes.csv", "-s", "range").stdout), missing="keep").X
    nan = np.nan  # c has no value at all
    np.testing.assert_array_equal(scaled, [[-1, nan, nan], [0, -1, nan], [nan, 0, nan], [1, 1, nan]])
    assert run("scale", "holes.csv", "-r", "range").stdout == run("scale", "holes.csv").stdout
    standard = read_csv(write_csv(run("scale", "holes.csv", "--standard").stdout), missing="keep").X
    np.testing.assert_allclose(np.nanmean(standard[:, :2], axis=0), 0, atol=1e-12)
    chosen = run("subset", "holes.csv", 2, "--rest", "rest.csv").stdout
    parts = chosen.split()[1:] + Path("rest.csv").read_text().split()[1:]
    assert sorted(parts) == sorted(Path("holes.csv").read_text().split()[1:])
    message = refused(run("convert", "holes.csv", "holes.svm", code=2))
    assert "missing values: a LIBSVM file has none (impute them: convert --impute)" in message
    assert not Path("holes.svm").exists()
    run("convert", "holes.csv", "filled.csv", "--impute", "median")
    np.testing.assert_array_equal(read_csv("filled.csv").X, [[1, 6, 0], [3, 4, 0], [3, 6, 0], [5, 8, 0]])
    run("convert", "holes.csv", "holes.svm", "--impute", 9)
    assert Path("holes.svm").read_text().splitlines()[0] == "0 1:1 2:9 3:9"


@pytest.mark.parametrize("impute", ["mean", "median", "most_frequent", "7"])
def test_imputed_values_are_those_of_the_training_file(run, people, impute):
    columns = {**PEOPLE, "survived": SURVIVED}
    columns["age"] = ["" if k % 10 == 3 else age for k, age in enumerate(PEOPLE["age"])]
    people.write_text(as_csv(columns))
    assert "a missing value (drop the line, or impute: --impute" in refused(run("train", people, "--one-hot", code=2))
    for ending in ("joblib", "safetensors"):
        run("train", people, f"m.{ending}", "--one-hot", "--impute", impute, "-q")
    known = np.array([float(age) for age in columns["age"] if age])
    values, counts = np.unique(known, return_counts=True)
    fill = {"mean": known.mean(), "median": np.median(known), "most_frequent": values[counts.argmax()], "7": 7.0}[impute]
    labels = run("predict", "m.joblib", people, "--decisions").stdout
    assert run("predict", "m.safetensors", people, "--decisions").stdout == labels
    people.write_text(as_csv({**columns, "age": [age or repr(float(fill)) for age in columns["age"]]}))
    assert run("predict", "m.joblib", people, "--decisions").stdout == labels


# --- formats -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "svm", "parquet"])
def test_tables_are_written_exactly(tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    rng = np.random.default_rng(1)
    content = "a,b,target\n" + "".join(f"{x!r},{y!r},{k % 3}\n" for k, (x, y) in enumerate(rng.normal(size=(20, 2)).tolist()))
    (tmp_path / "in.csv").write_text(content)
    table = read_table(tmp_path / "in.csv")
    write_table(table, tmp_path / f"out.{ending}")
    back = read_table(tmp_path / f"out.{ending}")
    X = back.X.toarray() if ending == "svm" else back.X
    assert np.array_equal(X, table.X)
    assert np.array_equal(back.y, table.y)
    assert back.feature_names == (None if ending == "svm" else ("a", "b"))


def test_parquet_has_text_booleans_and_gaps_too(run, people, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"age": list(map(int, PEOPLE["age"])), "port": PEOPLE["port"], "member": [t == "True" for t in PEOPLE["member"]]}
    columns |= {"fare": [None, *map(float, PEOPLE["fare"][1:])], "survived": SURVIVED}
    parquet.write_table(arrow.table(columns), tmp_path / "people.parquet")
    people.write_text(as_csv({**PEOPLE, "fare": ["", *PEOPLE["fare"][1:]], "survived": SURVIVED}))
    first, second = (read_table(tmp_path / f"people.{ending}", text="one-hot", missing="keep") for ending in ("csv", "parquet"))
    np.testing.assert_array_equal(first.X, second.X)
    assert first.feature_names == second.feature_names
    assert first.y.tolist() == second.y.tolist()
    assert "'' in column 'fare': a missing value" in refused(run("train", "people.parquet", "--one-hot", code=2))


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"nonsense" * 50])
def test_damaged_parquet(run, damage):
    pytest.importorskip("pyarrow")
    Path("d.parquet").write_bytes(damage)
    assert "d.parquet: not a Parquet file" in refused(run("train", "d.parquet", code=2))


def test_convert_says_which_number_is_which_label(run, iris_csv):
    assert run("convert", iris_csv, "iris.svm").stderr == "labels: 0 = setosa, 1 = versicolor, 2 = virginica\n"
    assert run("convert", "iris.svm", "--to", "csv").stdout.startswith("x1,x2,x3,x4,target\n5.1,3.5,1.4,0.2,0\n")
    assert "give OUTPUT" in refused(run("convert", iris_csv, code=2))
    assert "out.xyz: the ending must be one of .csv," in refused(run("convert", iris_csv, "out.xyz", code=2))
    assert "Parquet is not text" in refused(run("convert", iris_csv, "--to", "parquet", code=2))


def test_standard_input(run, iris_csv):
    content = iris_csv.read_bytes()
    report = run("train", "-", "m.safetensors", stdin=content).stdout
    assert value(report, "data").startswith("standard input: 150 samples")
    assert run("predict", "m.safetensors", "-", stdin=content).stdout == run("predict", "m.safetensors", iris_csv).stdout
    assert run("convert", "-", "--to", "libsvm", stdin=content).stdout.startswith("0 1:5.1 2:3.5")
    assert "standard input: the file is empty" in refused(run("check", "-", code=2, stdin=b""))


def test_subset_takes_the_same_share_of_each_class(run, iris_csv):
    run("subset", iris_csv, 30, "-o", "few.csv", "--rest", "rest.csv")
    few, rest = (read_table(name) for name in ("few.csv", "rest.csv"))
    assert dict(zip(*np.unique(few.y, return_counts=True), strict=True)) == dict.fromkeys(
        ["setosa", "versicolor", "virginica"], 10
    )
    both = sorted(map(tuple, np.concatenate([few.X, rest.X]).tolist()))
    assert both == sorted(map(tuple, read_table(iris_csv).X.tolist()))
    assert "COUNT 150: must be below the number of samples, 150" in refused(run("subset", iris_csv, 150, code=2))


def test_check_says_what_is_in_a_file(run):
    rows = [f"{k % 5},{1000 * k},7,{k % 2}" for k in range(20)]
    Path("d.csv").write_text("a,b,c,y\n" + "\n".join(rows) + "\n")
    facts = json.loads(run("check", "d.csv", "--json").stdout)
    assert facts["classes"] == {"0": 10, "1": 10}
    assert facts["constant"] == [3]
    assert facts["wide"] == [2]
    assert (facts["smallest"], facts["largest"]) == (0, 19000)
    assert value(run("check", "d.csv").stdout, "constant") == "c"
