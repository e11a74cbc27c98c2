"""Data files: what is read, and the line each faulty file is refused at."""

from __future__ import annotations

import gzip
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import issparse
from sklearn.datasets import dump_svmlight_file

from maxmargin.io import DataFileError, read_csv, read_libsvm, read_table

# --- CSV, read ---------------------------------------------------------------------------------


def test_csv_with_header_and_string_labels(write):
    table = read_csv(write("iris.csv", "long,wide,kind\n5.1,3.5,setosa\n7.0,3.2,versicolor\n"))
    np.testing.assert_array_equal(table.X, [[5.1, 3.5], [7.0, 3.2]])
    assert table.X.dtype == np.float64
    assert table.y.tolist() == ["setosa", "versicolor"]
    assert table.feature_names == ("long", "wide")
    assert table.source.endswith("iris.csv")


def test_csv_without_header(write):
    table = read_csv(write("plain.csv", "1,2,-1\n3,4,+1\n"))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert table.y.tolist() == [-1, 1]
    assert table.y.dtype == np.int64
    assert table.feature_names is None


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_delimiters_are_found(write, delimiter):
    text = 'a,"b;c",y\n1,2,0\n3,4,1\n' if delimiter == "," else "a,b,y\n1,2,0\n3,4,1\n"
    table = read_csv(write("d.txt", text.replace(",", delimiter)))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert table.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("first_line", "is_header"),
    [
        ("a,b,c", True),
        ("0,1,class", True),  # what pandas writes for unnamed columns
        ("1,2,3", False),
    ],
)
def test_csv_header_is_found(write, first_line, is_header):
    table = read_csv(write("h.csv", f"{first_line}\n4,5,6\n7,8,9\n"))
    assert len(table.X) == (2 if is_header else 3)
    assert (table.feature_names is not None) == is_header


def test_csv_missing_mark_in_first_line_is_no_header(write):
    with pytest.raises(DataFileError, match=r"line 1: '\?' in column 1: a missing value"):
        read_csv(write("m.csv", "?,2,0\n3,4,1\n"))


def test_csv_header_can_be_told(write):
    path = write("years.csv", "1990,1991,1992\n1,2,0\n3,4,1\n")
    assert read_csv(path).X.shape == (3, 2)
    assert read_csv(path, header=True).feature_names == ("1990", "1991")


@pytest.mark.parametrize(
    ("target", "expected"),
    [(None, [7, 8]), ("a", [1, 2]), (0, [1, 2]), (-1, [5, 6]), ("2", [5, 6]), ("Label", [7, 8])],
)
def test_csv_target(write, target, expected):
    table = read_csv(write("t.csv", "a,Label,c\n1,7,5\n2,8,6\n"), target)
    assert table.y.tolist() == expected
    assert table.X.shape == (2, 2)


def test_csv_quotes_blank_lines_spaces_and_byte_order_mark(write):
    text = '\ufeffa, b, "the ""kind"""\r\n\r\n1, "2", "red, or\r\nblue"\r\n 3 ,4e-1,green\r\n\r\n'
    table = read_csv(write("q.csv", text))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 0.4]])
    assert table.y.tolist() == ["red, or\r\nblue", "green"]
    assert table.feature_names == ("a", "b")


def test_csv_without_labels(write):
    path = write("new.csv", "a,b\n1,2\n3,4\n")
    table = read_csv(path, n_features=2)
    assert table.y is None
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert read_csv(path, n_features=1).y.tolist() == [2, 4]


def test_csv_labels_that_are_fractions_stay_so(write):
    assert read_csv(write("f.csv", "1,0.5\n2,1\n")).y.tolist() == [0.5, 1.0]


def test_csv_other_encoding(write):
    path = write("latin.csv", "größe,y\n1,0\n2,1\n".encode("latin-1"))
    assert read_csv(path, encoding="latin-1").feature_names == ("größe",)


def test_compressed(write):
    path = write("z.csv.gz", gzip.compress(b"a,y\n1,0\n2,1\n"))
    assert read_table(path).X.tolist() == [[1], [2]]


@given(
    X=arrays(
        np.float64,
        st.tuples(st.integers(2, 6), st.integers(1, 4)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_csv_gives_back_every_bit(write, X):
    lines = [",".join(map(repr, row)) for row in np.column_stack([X, np.arange(len(X))]).tolist()]
    table = read_csv(write("bits.csv", "\n".join(lines)))
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, np.arange(len(X)))


# --- CSV, refused ------------------------------------------------------------------------------

CSV_FAULTS = {
    "too few": ("a,b,y\n1,2,0\n3,1\n4,5,1\n", 3, "2 values where the header has 3"),
    "too many": ("1,2,0\n3,4,1\n3,4,5,1\n", 3, "4 values where line 1 has 3"),
    "cut off": ("a,b,y\n1,2,0\n3,4", 3, "was the file cut off?"),
    "text": ("a,b,y\n1,2,0\n\n3,tall,1\n", 4, "'tall' in column 'b' is not a number"),
    "text, no header": ("1,2,0\n1,2,0\n3,tall,1\n", 3, "'tall' in column 2 is not a number"),
    "column beside the target": ("y,b,c\n0,1,2\n1,3,x\n", 3, "'x' in column 'c'"),
    "decimal comma": ("a;b;y\n1;2;0\n1,5;2;1\n", 3, "write decimal points"),
    "underscore": ("a,b,y\n1,2,0\n1_000,2,1\n", 3, "'1_000' in column 'a' is not a number"),
    "missing": ("a,b,y\n1,2,0\n1,,0\n", 3, "a missing value"),
    "nan": ("a,b,y\n1,nan,0\n", 2, "'nan' in column 'b': a missing value"),
    "inf": ("a,b,y\n1,2,0\n1,-inf,0\n", 3, "-inf in column 'b'"),
    "overflow": ("a,b,y\n1,2,0\n1,1e999,0\n", 3, "inf in column 'b'"),
    "no label": ("a,b,y\n1,2,0\n1,2,\n", 3, "no label in column 'y'"),
    "nan label": ("a,b,y\n1,2,0\n1,2,nan\n", 3, "the label 'nan'"),
    "open quote": ('a,b,y\n1,2,"red\n1,2,blue\n', 2, "a quote that is not closed?"),
    "after a quoted line end": ('a,b,y\n1,2,"r\ne\nd"\n1,x,"blue"\n', 5, "'x' in column 'b'"),
    "one column": ("1\n2\n", 1, "a single column"),
    "header alone": ("a,b,y\n", 1, "no data below it"),
    "latin-1": ("a,b,y\n1,2,gr\xfcn\n".encode("latin-1"), 2, "byte 0xfc is not utf-8"),
    "binary": (b"a,b,y\n1,2,0\n1,\0,0\n", 3, "NUL byte"),
}


@pytest.mark.parametrize(("content", "line", "reason"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_csv_fault_names_file_line_and_reason(write, content, line, reason):
    path = write("data.csv", content)
    with pytest.raises(DataFileError) as caught:
        read_csv(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"target": "size"}, "target='size': no such column (the columns are a, b, b)"),
        ({"target": "b"}, "several columns have this name"),
        ({"target": 3}, "target=3: must be from -3 to 2"),
        ({"target": "-4"}, "target=-4: must be from -3 to 2"),
        ({"n_features": 5}, "3 columns where 5 features and perhaps a label are expected"),
        ({"n_features": 3, "target": 0}, "3 columns where 3 features and a label are expected"),
    ],
)
def test_csv_options_that_do_not_fit_the_file(write, options, reason):
    with pytest.raises(DataFileError, match=re.escape(reason)):
        read_csv(write("data.csv", "a,b,b\n1,2,0\n"), **options)


@pytest.mark.parametrize("read", [read_csv, read_libsvm, read_table])
def test_files_refused_as_a_whole(tmp_path, write, read):
    cases = {
        tmp_path / "absent": "no such file",
        tmp_path: "cannot be read",
        write("empty", " \n\n"): "the file is empty",
        write("wide", "a,b\n1,2\n".encode("utf-16")): "UTF-16",
        write("cut.gz", gzip.compress(b"1 1:2\n" * 99)[:-20]): "cut off",
        write("not.gz", b"1 1:2\n"): "cannot be read",
    }
    for path, reason in cases.items():
        with pytest.raises(DataFileError, match=reason) as caught:
            read(path)
        assert caught.value.line is None


def test_error_is_a_value_error_and_survives_pickling():
    error = DataFileError("data.csv", "12 values where the header has 13", 17)
    assert isinstance(error, ValueError)
    assert str(error) == "data.csv, line 17: 12 values where the header has 13"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line) == (str(error), 17)


# --- LIBSVM ------------------------------------------------------------------------------------


def test_libsvm_reads_what_scikit_learn_writes(tmp_path):
    X = np.random.default_rng(0).normal(size=(7, 4)) * (np.arange(28).reshape(7, 4) % 3 > 0)
    X[0, 0] = 1.5  # so that index 0 occurs
    y = np.array([1, -1, 1, 1, -1, -1, 1])
    for zero_based in (True, False):
        path = tmp_path / f"{zero_based}.svm"
        dump_svmlight_file(X, y, str(path), zero_based=zero_based)
        table = read_libsvm(path)
        assert issparse(table.X)
        np.testing.assert_allclose(table.X.toarray(), X, rtol=1e-15)
        assert table.y.tolist() == y.tolist()
        assert table.y.dtype == np.int64


def test_libsvm_comments_queries_and_empty_samples(write):
    table = read_libsvm(write("c", "# remark_1\n+1 qid:3 2:4 # x\n\n-1\r\n0.5 1:1e-3\n"))
    assert table.X.toarray().tolist() == [[0, 4], [0, 0], [1e-3, 0]]
    assert table.y.tolist() == [1, -1, 0.5]


def test_libsvm_zero_based_and_width(write):
    path = write("w", "1 1:5\n2 2:6\n")
    assert read_libsvm(path).X.toarray().tolist() == [[5, 0], [0, 6]]
    assert read_libsvm(path, zero_based=True).X.toarray().tolist() == [[0, 5, 0], [0, 0, 6]]
    assert read_libsvm(path, n_features=4).X.shape == (2, 4)
    with pytest.raises(DataFileError, match="line 2: an index beyond the 1 features expected"):
        read_libsvm(path, n_features=1)


LIBSVM_FAULTS = {
    "cut off in a pair": ("1 1:2 3:4\n# remark\n2 1:1 3:", 3, "'3:' is not index:value (the last"),
    "no colon": ("1 1:2\n2 7\n3 1:1\n", 2, "'7' is not index:value"),
    "text index": ("1 1:2\n\n2 a:7\n", 3, "the index of 'a:7' is not a whole number"),
    "negative index": ("1 -1:2\n", 1, "the index of '-1:2' is not a whole number"),
    "huge index": ("1 99999999999:2\n", 1, "is beyond 2147483647"),
    "text value": ("1 1:2\n2 1:x\n", 2, "the value of '1:x' is not a finite number"),
    "underscore": ("1 1:2\n2 1:1_0\n", 2, "the value of '1:1_0' is not a finite number"),
    "out of order": ("1 1:2\n2 5:1 3:1\n", 2, "index 3 after index 5"),
    "twice": ("1 1:2 1:3\n", 1, "index 1 after index 1"),
    "nan": ("# remark\n1 1:2\n2 1:nan\n", 3, "NaN or infinite"),
    "infinite": ("1 1:2\n\n2 1:1 2:inf\n", 3, "NaN or infinite"),
    "nan label": ("1 1:2\nnan 1:1\n", 2, "a label that is NaN"),
    "text label": ("1 1:2\nspam 1:1\n", 2, "the label 'spam' is not a finite number"),
    "several labels": ("1 1:2\n1,2 1:1\n", 2, "several labels"),
    "binary": (b"1 1:2\n2 \0\n", 2, "NUL byte"),
}


@pytest.mark.parametrize(("content", "line", "reason"), LIBSVM_FAULTS.values(), ids=LIBSVM_FAULTS)
def test_libsvm_fault_names_file_line_and_reason(write, content, line, reason):
    path = write("data.svm", content)
    with pytest.raises(DataFileError) as caught:
        read_libsvm(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in str(caught.value)


def test_libsvm_index_zero_where_told_otherwise(write):
    with pytest.raises(DataFileError, match="line 2: index 0 where indices count from 1"):
        read_libsvm(write("z", "1 1:2\n2 0:1\n"), zero_based=False)


def test_libsvm_nothing_but_comments(write):
    with pytest.raises(DataFileError, match="no samples"):
        read_libsvm(write("c", "# one\n# two\n"))


# --- which of the two --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "sparse"),
    [
        ("a.txt", "1 1:2 2:3\n-1 2:4\n", True),
        ("a9a", "# remark\n1 qid:1 1:2\n", True),
        ("a.txt", "1,2,0\n3,4,1\n", False),
        ("rows.svm", "1\n-1\n", True),
        ("rows.csv.gz", gzip.compress(b"1,2\n3,4\n"), False),
        ("rows.t.gz", gzip.compress(b"1 1:2\n2 3:4\n"), True),
    ],
)
def test_table_chooses(write, name, content, sparse):
    assert issparse(read_table(write(name, content)).X) == sparse


def test_a_colon_within_a_field_makes_no_sparse_row(write):
    with pytest.raises(DataFileError, match=r"'12:30' in column 2 is not a number"):
        read_table(write("times", "0,12:30,1\n"))


def test_table_passes_target_on(write):
    assert read_table(write("a.csv", "1,2\n3,4\n"), 0).y.tolist() == [1, 3]
    with pytest.raises(DataFileError, match="leave target out"):
        read_table(write("a.svm", "1 1:2\n"), 0)
