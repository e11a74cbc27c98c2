"""Malformed files: each is read, or refused in one line that names it; no traceback, no long wait, no large amount of memory.

Mutants of small well-formed files (bits flipped, lines cut, words exchanged for numbers in odd notations) go through the readers
in this process. What could fill the memory or wait for ever goes through the command line in a process with limits.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, audit
from maxmargin.audits.libsvm import read_model_file
from maxmargin.io import DataFileError, Table, bytes_and_text, read_csv, read_libsvm, read_table
from tests import oracle

LONGEST_MESSAGE = 400  # characters after the name of the file
SLOWEST = 5.0  # seconds for one small file, on a busy machine

# --- well-formed files ---------------------------------------------------------------------------------------------------

X = np.array([
    [3.04, -2.56, 0.42], [-0.57, 0.55, -0.22], [-2.02, -0.23, 0.13], [4.32, 0.0, -0.35], [-0.28, 0.33, 0.0], [-0.39, 0.48, 0.76],
    [1.96, -0.2, 0.02], [1.55, 1.0, 0.0], [-0.18, 0.54, 2.94], [0.73, -0.24, 1.0], [0.0, 0.71, 0.88], [0.58, 0.09, 1.67],
])  # fmt: skip
LABELS = np.array([4, -2, 7] * 4)
KERNEL_MATRIX = oracle.kernel_matrix("rbf", X, gamma=0.5)
TARGETS = np.array([0.93, -0.3, -1.96, 3.85, 0.09, 0.75, 1.92, 2.55, 3.26, 1.32, 1.76, 2.42])

CSV = "length,width,höhe,kind\n" + "".join(
    f"{a},{b},{c},{label}\n" for (a, b, c), label in zip(X.tolist(), ["red", "grün", '"blue, or\ncyan"'] * 4, strict=True)
)
NUMBERS_CSV = "".join(f"{a};{b};{c};{label}\n" for (a, b, c), label in zip(X.tolist(), LABELS, strict=True))
LIBSVM = "# a remark\n" + "".join(
    f"{label} " + " ".join(f"{j}:{value}" for j, value in enumerate(row, start=1) if value) + "\n"
    for row, label in zip(X.tolist(), LABELS, strict=True)
)

# Models of LIBSVM 3.35 of these data: -c 1 -g 0.5; -s 3 -t 1 -d 2 -r 1 -g 0.5 -c 1 -p 0.3; -s 2 -t 4 -n 0.3
# with the matrix of the kernel of the first
CLASSIFIER = """\
svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 12
rho -0.36936527266502422 -0.04971750044184161 0.16062916753966769
label 4 -2 7
nr_sv 4 4 4
SV
0.59310388167375461 0.91317503366926955 1:3.04 2:-2.56 3:0.42 
0.58709274935434452 0.89832428573552092 1:4.32 3:-0.35 
0.85214618239062345 0.70958260920217564 1:1.96 2:-0.2 3:0.02 
1 1 1:0.73 2:-0.24 3:1 
-0.58242891777041772 1 1:-0.57 2:0.55 3:-0.22 
-0.44991389564830486 0.58828708265305585 1:-0.28 2:0.33 
-1 0.98755513156966734 1:1.55 2:1 
-1 1 2:0.71 3:0.88 
-0.90576996344143057 -1 1:-2.02 2:-0.23 3:0.13 
-0.87445462058621104 -1 1:-0.39 2:0.48 3:0.76 
-0.74085734457932451 -0.57584221422272319 1:-0.18 2:0.54 3:2.94 
-1 -1 1:0.58 2:0.09 3:1.67 
"""  # noqa: W291 (LIBSVM writes a space at the end)
REGRESSOR = """\
svm_type epsilon_svr
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 2
total_sv 6
rho -0.53621978976411488
SV
-0.026623214260250275 1:3.04 2:-2.56 3:0.42 
-0.32148391372205654 1:-0.57 2:0.55 3:-0.22 
-0.29002568200332479 1:-2.02 2:-0.23 3:0.13 
0.069517286472263989 1:4.32 3:-0.35 
-0.013669064483759428 1:0.73 2:-0.24 3:1 
0.58228458799712712 2:0.71 3:0.88 
"""  # noqa: W291
ONE_CLASS = """\
svm_type one_class
kernel_type precomputed
nr_class 2
total_sv 10
rho 0.59693867508804754
SV
0.57938672948549641 0:1 
0.35332674769125066 0:2 
0.50008596315221343 0:3 
0.56762925390018526 0:4 
0.30930031154183252 0:7 
0.3490990498765183 0:8 
0.51604864493880598 0:9 
0.159761681639429 0:10 
0.085498658016813223 0:11 
0.17986295975745467 0:12 
"""  # noqa: W291
MODELS = {"classifier": CLASSIFIER, "regressor": REGRESSOR, "one class": ONE_CLASS}


def prove(path: Path, kind: str) -> Any:
    """Audit a model file on the data that its well-formed original was fitted on."""
    samples, y = {"classifier": (X, LABELS), "regressor": (X, TARGETS), "one class": (KERNEL_MATRIX, LABELS)}[kind]
    return audit(path, samples, y, C=1.0, epsilon=0.3, nu=0.3)


# --- mutants -----------------------------------------------------------------------------------------------------------

ODD_WORDS = [
    b"", b"0", b"-1", b"-0", b"+1", b"1.5", b"1e3", b"1e400", b"-1e400", b"1e-400", b"1e308", b"-1e308", b"nan", b"-nan",
    b"inf", b"NaN(1)", b"1_000", b"0x10", b"0b1", b"1d5", b"1,5", "１".encode(), "٣".encode(), "−1".encode(),
    "\u00a0".encode(), "\u3000".encode(), b"\x1c", b"\x85", b"\x0b", b"\x0c", b"\r", b"\t", b"\n", b"\xff", b"\xc3", b"\0",
    b"\xef\xbb\xbf", b"#", b":", b"::", b"1:", b":1", b"1:2:3", b'"', b'""', b"'", b";", b",", b"qid:1", b"qid", b"qidx:1",
    b"?", b"null", b"2147483646", b"2147483647", b"2147483648", b"9223372036854775807", b"18446744073709551616",
    b"100000001:1", b"2147483647:1", b"0:1", b"-1:1", b"1_0:1", b"9" * 4299, b"9" * 4301, b"0." + b"3" * 5000, b"x" * 20000,
    b"1 " * 3000, b"SV", b"svm_type", b"c_svc", b"nu_svr", b"one_class", b"precomputed", b"linear", b"sigmoid", b"rbf",
    b"total_sv 3", b"gamma -1", b"degree 1000000000", b"nr_class 1000000000", b"label 1 1 1", b"coef0 1e300",
    b"prob_density_marks 1",
]  # fmt: skip


def flip_bit(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def drop_bytes(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.randrange(1, 20) :]


def insert_word(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(ODD_WORDS) + content[at:]


def replace_word(content: bytes, rng: random.Random) -> bytes:
    """An odd word in the place of a word, a field or half of a pair."""
    edges = [at for at, byte in enumerate(content) if byte in b" ,;:\n"]
    first = rng.randrange(len(edges) - 1)
    return content[: edges[first] + 1] + rng.choice(ODD_WORDS) + content[edges[first + 1] :]


def of_lines(change: Callable[[list[bytes], random.Random], None]) -> Callable[[bytes, random.Random], bytes]:
    def mutate(content: bytes, rng: random.Random) -> bytes:
        lines = content.splitlines(keepends=True)
        change(lines, rng)
        return b"".join(lines)

    return mutate


def other_line_ends(content: bytes, rng: random.Random) -> bytes:
    return content.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\n\r", b" \t\n", b"\v\n", "\u2028".encode()]))


MUTATIONS = [
    flip_bit,
    cut,
    drop_bytes,
    insert_word,
    replace_word,
    replace_word,
    of_lines(lambda lines, rng: lines.pop(rng.randrange(len(lines)))),
    of_lines(lambda lines, rng: lines.insert(rng.randrange(len(lines)), rng.choice(lines))),
    of_lines(lambda lines, rng: rng.shuffle(lines)),
    other_line_ends,
]


def mutants(content: str | bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """The same `count` mutants in each run, with one to three mutations each."""
    rng = random.Random(seed)
    original = content.encode() if isinstance(content, str) else content
    for _ in range(count):
        mutant = original
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            if mutant:
                mutant = rng.choice(MUTATIONS)(mutant, rng) if b"\n" in mutant else flip_bit(mutant, rng)
        yield mutant


def outcome(read: Callable[[], Any], path: Path) -> Any:
    """What `read` returns, or None if it refuses the file as it should: in one line that names file and line, soon."""
    start = time.perf_counter()
    try:
        result = read()
    except DataFileError as error:
        check_message(str(error), path)
        check_line(error, path)
        result = None
    assert time.perf_counter() - start < SLOWEST
    return result


def check_message(message: str, path: Path) -> None:
    assert message.startswith(str(path))
    assert message.isprintable()  # so it is one line
    assert len(message) < len(str(path)) + LONGEST_MESSAGE


def check_line(error: DataFileError, path: Path) -> None:
    n_lines = len(path.read_bytes().splitlines())
    assert error.line is None or 1 <= error.line <= n_lines + 1


def check_table(table: Table) -> None:
    values = table.X.data if isinstance(table.X, csr_matrix) else table.X
    assert np.isfinite(values).all()
    assert table.y.shape == (table.X.shape[0],)
    if table.y.dtype.kind == "f":
        assert np.isfinite(table.y).all()


def check_libsvm_table(table: Table, content: bytes) -> None:
    """The numbers are those that a plain reading of each line gives."""
    lines = [line.partition(b"#")[0].split() for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    samples = [line for line in lines if line]
    pairs = [[pair.split(b":") for pair in words[1:] if not pair.startswith(b"qid:")] for words in samples]
    indices = [int(index) for row in pairs for index, _ in row]
    start = 0 if 0 in indices or not indices else 1
    assert table.y.tolist() == [float(words[0]) for words in samples]
    assert table.X.indices.tolist() == [index - start for index in indices]
    assert table.X.data.tolist() == [float(value) for row in pairs for _, value in row]
    assert np.diff(table.X.indptr).tolist() == [len(row) for row in pairs]


@pytest.mark.parametrize("content", [CSV, NUMBERS_CSV], ids=["text labels", "numbers"])
def test_mutants_of_csv_files(tmp_path: Path, content: str) -> None:
    path, n_read = tmp_path / "data.csv", 0
    for mutant in mutants(content, 500):
        path.write_bytes(mutant)
        table = outcome(lambda: read_csv(path), path)
        if table is not None:
            check_table(table)
            n_read += 1
    assert 50 < n_read < 450  # the mutants are neither all harmless nor all hopeless


def test_mutants_of_libsvm_files(tmp_path: Path) -> None:
    path, n_read = tmp_path / "data.svm", 0
    for mutant in mutants(LIBSVM, 800):
        path.write_bytes(mutant)
        table = outcome(lambda: read_libsvm(path), path)
        if table is not None:
            check_table(table)
            check_libsvm_table(table, mutant)
            n_read += 1
    assert 80 < n_read < 720


@pytest.mark.parametrize("content", [CSV, LIBSVM], ids=["csv", "libsvm"])
def test_mutants_of_files_without_an_ending(tmp_path: Path, content: str) -> None:
    path = tmp_path / "data"
    for mutant in mutants(content, 200, seed=1):
        path.write_bytes(mutant)
        table = outcome(lambda: read_table(path), path)
        if table is not None:
            check_table(table)


@pytest.mark.parametrize("kind", MODELS)
def test_mutants_of_model_files(tmp_path: Path, kind: str) -> None:
    path, n_read = tmp_path / "libsvm.model", 0
    for mutant in mutants(MODELS[kind], 400):
        path.write_bytes(mutant)
        if outcome(lambda: read_model_file(path), path) is None:
            continue
        n_read += 1
        with contextlib.suppress(ValueError):  # the file is sound, but no longer the model of these data
            assert "nan" not in str(prove(path, kind))
    assert 20 < n_read < 380


def test_mutants_of_compressed_files(tmp_path: Path) -> None:
    path, packed, rng = tmp_path / "data.svm.gz", gzip.compress(LIBSVM.encode(), mtime=0), random.Random(0)
    for _ in range(200):
        path.write_bytes(rng.choice([flip_bit, cut, drop_bytes])(packed, rng))
        outcome(lambda: read_libsvm(path), path)


# --- faults by name ------------------------------------------------------------------------------------------------------


MILLION = 10**6
DATA_FAULTS = {
    "digits of another script": ("d.csv", "1,2,0\n１,2,1\n", 2, "'１' in column 1 is not a number"),
    "hexadecimal": ("d.csv", "1,2,0\n0x10,2,1\n", 2, "'0x10' in column 1 is not a number"),
    "beyond float64": ("d.csv", "1,2,0\n1,-1e400,1\n", 2, "-inf in column 2"),
    "endless number": ("d.csv", f"1,2,0\n1,{'9' * 5000},1\n", 2, "inf in column 2"),
    "endless text": ("d.csv", f"1,2,0\n1,{'x' * 5000},1\n", 2, "x…' in column 2 is not a number"),
    "quoted nothing": ("d.csv", '""\n""\n', None, "all of its lines are blank"),
    "spaces of another script": ("d.csv", "\u00a0\n\u3000\n", None, "all of its lines are blank"),
    "label of many lines": ("d.csv", '1,2,a\n1,2,"b' + "\n5,6,c" * 999 + '"\n', 2, "a label of 5995 characters in column 3"),
    "label that is not finite": ("d.csv", "1,2,0\n1,2,1e400\n", 2, "the label '1e400' in column 3 is not finite"),
    "column name of two lines": ("d.csv", '"a\nb",c,y\n1,2,0\nx,2,1\n', 4, r"'x' in column 'a\nb' is not a number"),
    "endless line": ("d.csv", "1,2,0\n" + "1," * MILLION + "0\n", 2, "1000001 values where line 1 has 3"),
    "endless index": ("d.svm", f"1 1:2\n1 {'9' * 5000}:1\n", 2, "9…' is beyond 2147483647"),
    "index beyond all reason": ("d.svm", "1 1:2\n-1 2147483646:1\n", 2, "an index beyond 100,000,000 (a mistake? if not"),
    "value in digits of another script": ("d.svm", "1 1:2\n1 1:１\n", 2, "the value of '1:１' is not a finite number"),
    "other white space": ("d.svm", "1 1:2\n1 1:2\x1c3:4\n", 2, r"the value of '1:2\x1c3:4' is not a finite number"),
    "value that is not UTF-8": ("d.svm", b"1 1:2\n1 1:\xff\n", 2, r"the value of '1:\\xff' is not a finite number"),
    "not a query": ("d.svm", "1 qid:3 1:2\n1 qidx:7 1:2\n", 2, "the index of 'qidx:7' is not a whole number"),
    "label not finite": ("d.svm", "1 1:2\n1e400 1:2\n", 2, "a label that is NaN or infinite"),
    "old Macintosh": ("d.svm", "1 1:2\r-1 1:3\r", 1, "'-1' is not index:value"),
    "endless lines": ("d.svm", "\n" * MILLION + "1 x\n", MILLION + 1, "'x' is not index:value"),
}


@pytest.mark.parametrize(("name", "content", "line", "reason"), DATA_FAULTS.values(), ids=DATA_FAULTS)
def test_faults_of_data_files(write: Any, name: str, content: str | bytes, line: int | None, reason: str) -> None:
    path = write(name, content)
    with pytest.raises(DataFileError) as caught:
        read_table(path)
    assert caught.value.line == line
    assert reason in str(caught.value)
    check_message(str(caught.value), path)


def test_messages_list_a_few_columns(write: Any) -> None:
    path = write("d.csv", ",".join(f"c{j}" for j in range(5000)) + "\n" + ",".join("1" * 5000) + "\n")
    with pytest.raises(DataFileError, match=r"c18, c19, … \(5000 in all\)") as caught:
        read_csv(path, "z" * 5000)
    check_message(str(caught.value), path)


def test_odd_files_that_are_well_formed(write: Any) -> None:
    blank = "\n" * 200_000  # more than a glance
    assert read_table(write("d", blank + "1 1:2\n-1 2:3\n")).X.shape == (2, 2)
    assert read_table(write("d", "\ufeff" + blank + "a\tb\ty\r\n1\t2\t0\r\n3\t4\t1\r\n")).X.tolist() == [[1, 2], [3, 4]]
    assert read_table(write("d.csv", "1,2,0\r3,\u00a04,1\r")).X.tolist() == [[1, 2], [3, 4]]
    assert read_table(write("d.svm", "\ufeff1\t+2:3\r\n-1  1:1e-400 # x_y\r\n")).X.toarray().tolist() == [[0, 3], [0, 0]]


def test_a_wide_file_is_read_if_its_width_is_given(write: Any) -> None:
    table = read_libsvm(write("d.svm", "1 1:2\n-1 2147483646:1\n"), n_features=2**31 - 1)
    assert table.X.shape == (2, 2**31 - 1)
    assert table.X.indices.tolist() == [0, 2147483645]
    assert read_libsvm(write("d.svm", "1 1:2\n-1 100000000:1\n")).X.shape == (2, 100_000_000)


def test_file_names_are_printed_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "da\nta\udcff.csv"
    with pytest.raises(DataFileError, match=r"da\\nta\\udcff\.csv: no such file$") as caught:
        read_csv(path)
    assert str(caught.value).isprintable()


def exchange(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


MODEL_FAULTS = {
    "number of classes": (exchange("nr_class 3", "nr_class 1000000000"), 6, "rho has 3 values where there must be 4999999995"),
    "no classes": (exchange("nr_class 3", "nr_class 0"), 4, "nr_class 0: must be a whole number from 2"),
    "fraction of a class": (exchange("nr_class 3", "nr_class 3.5"), 4, "nr_class 3.5: must be a whole number"),
    "negative total": (exchange("total_sv 12", "total_sv -12"), 5, "total_sv -12: must be a whole number from 1"),
    "huge total": (exchange("total_sv 12", "total_sv 2000000000"), 8, "nr_sv adds up to 12: must be total_sv 2000000000"),
    "endless total": (exchange("total_sv 12", "total_sv " + "9" * 5000), 5, "9…: must be a whole number from 1"),
    "two totals": (exchange("total_sv 12", "total_sv 12 12"), 5, "total_sv has 2 values where there must be 1"),
    "no total": (exchange("total_sv 12\n", ""), None, "no total_sv in its header: was it cut off?"),
    "total twice": (exchange("total_sv 12\n", "total_sv 12\ntotal_sv 12\n"), 6, "total_sv for the second time, after line 5"),
    "total too small": (
        lambda text: text.replace("total_sv 12", "total_sv 9").replace("nr_sv 4 4 4", "nr_sv 4 4 1"), None,
        "12 support vectors where its header says 9",
    ),
    "kernel": (exchange("rbf", "rbg"), 2, "kernel_type rbg: must be one of linear, polynomial, rbf"),
    "type of another kind": (exchange("c_svc", "nu_svr"), 4, "nr_class 3: must be 2 where svm_type is nu_svr"),
    "keyword": (exchange("gamma", "gramma"), 3, "'gramma' is not a keyword of LIBSVM's model files"),
    "no gamma": (exchange("gamma 0.5\n", ""), None, "no gamma in its header"),
    "negative gamma": (exchange("gamma 0.5", "gamma -0.5"), 3, "gamma -0.5: must be a finite number, 0 or more"),
    "gamma that is not a number": (exchange("gamma 0.5", "gamma nan"), 3, "gamma nan: must be a finite number"),
    "rho": (exchange("rho -0.3", "rho inf -0.3"), 6, "rho inf: must be a finite number"),
    "the same label": (exchange("label 4 -2 7", "label 4 4 7"), 7, "label has the same label twice"),
    "label that is a fraction": (exchange("label 4 -2 7", "label 4 -2 0.7"), 7, "label 0.7: must be a whole number"),
    "no labels": (exchange("label 4 -2 7\n", ""), None, "no label in its header"),
    "counts": (exchange("nr_sv 4 4 4", "nr_sv 4 4 5"), 8, "nr_sv adds up to 13: must be total_sv 12"),
    "negative count": (exchange("nr_sv 4 4 4", "nr_sv 4 12 -4"), 8, "nr_sv -4: must be a whole number from 0"),
    "coefficient": (exchange("\n1 1 1:0.73", "\n1 1_0 1:0.73"), 13, "'1_0' is not a finite number"),
    "infinite coefficient": (exchange("\n1 1 1:0.73", "\n1 1e400 1:0.73"), 13, "'1e400' is not a finite number"),
    "too few coefficients": (exchange("\n1 1 1:0.73 2:-0.24 3:1", "\n1"), 13, "not 2 coefficients and pairs index:value, but"),
    "coefficient left out": (exchange("\n1 1 1:0.73", "\n1 1:0.73"), 13, "'1:0.73' is not a finite number"),
    "value": (exchange("2:-0.24", "2:nan"), 13, "'2:nan' is not an index of at most 2147483647 and a finite number"),
    "index too large": (exchange("3:1 \n", "2147483648:1\n"), 13, "'2147483648:1' is not an index"),
    "endless index": (exchange("3:1 \n", "9" * 5000 + ":1\n"), 13, "9…' is not an index"),
    "index of another script": (exchange("3:1 \n", "３:1\n"), 13, "'３:1' is not an index"),
    "index 0": (exchange("1:0.73", "0:0.73"), 13, "index 0: the features must count from 1"),
    "negative index": (exchange("3:1 \n", "-3:1\n"), 13, "'-3:1' is not an index"),
    "indices that fall": (exchange("3:1 \n", "1:1\n"), 13, "index 1 after index 2: indices must increase along a line"),
    "NUL byte": (exchange("3:1 \n", "3:\0\n"), 13, "a NUL byte"),
    "cut off": (lambda text: text[:300], None, "support vectors where its header says 12: was it cut off?"),
    "cut off in the header": (lambda text: text[:60], None, "no rho in its header"),
    "empty": (lambda text: "", None, "not a LIBSVM model file"),
    "UTF-16": (lambda text: text.encode("utf-16"), None, "not a LIBSVM model file"),
    "something else": (lambda text: "svm type c_svc\n", None, "not a LIBSVM model file"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "line", "reason"), MODEL_FAULTS.values(), ids=MODEL_FAULTS)
def test_faults_of_model_files(write: Any, change: Callable[[str], str | bytes], line: int | None, reason: str) -> None:
    path = write("libsvm.model", change(CLASSIFIER))
    with pytest.raises(DataFileError) as caught:
        prove(path, "classifier")
    assert caught.value.line == line
    assert reason in str(caught.value)
    check_message(str(caught.value), path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (exchange("0:3 \n", "0:2 \n"), "line 9: sample 2 for the second time, after line 8"),
        (exchange("0:3 \n", "0:1e300 \n"), "line 9: no pair 0:number"),
        (exchange("0:3 \n", "1:3 \n"), "line 9: no pair 0:number"),
        (exchange("0:3 \n", "0:2.5 \n"), "line 9: no pair 0:number"),
        (exchange("0:3 \n", "0:13 \n"), "X has 12 samples, and the model was fitted on 13 at least"),
    ],
)
def test_faults_of_models_with_a_precomputed_kernel(write: Any, change: Callable[[str], str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        prove(write("libsvm.model", change(ONE_CLASS)), "one class")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (exchange("-0.32148391372205654", "-1e308"), "a dual coefficient of size 1e[+]308, too large to be audited"),
        (exchange("rho -0.53621978976411488", "rho 1e308"), "an intercept of size 1e[+]308, too large to be audited"),
        (exchange("coef0 1", "coef0 1e308"), "the kernel values are too large to be audited"),
        (exchange("degree 2", "degree 2000000000"), "the kernel values are too large to be audited"),
    ],
)
def test_models_with_numbers_beyond_float64(write: Any, change: Callable[[str], str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        prove(write("libsvm.model", change(REGRESSOR)), "regressor")


@pytest.mark.parametrize("kind", MODELS)
def test_well_formed_models(write: Any, kind: str) -> None:
    found = prove(write("libsvm.model", MODELS[kind]), kind)
    assert found.holds(1e-2)
    for same in (MODELS[kind].replace("\n", "\r\n"), MODELS[kind] + "\n\n", "\ufeff" + MODELS[kind].replace("SV\n", "\nSV\n")):
        assert prove(write("libsvm.model", same), kind).gap == found.gap
    assert prove(write("libsvm.model.gz", gzip.compress(MODELS[kind].encode())), kind).gap == found.gap


@pytest.mark.parametrize("read", [read_csv, read_libsvm, read_table, read_model_file])
def test_files_without_permission(write: Any, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any]) -> None:
    def refuse(*_: Any) -> None:  # as `open` does, unless the tests are run by root
        raise PermissionError(13, "Permission denied", "data.locked")

    monkeypatch.setitem(bytes_and_text.UNPACKERS, ".locked", refuse)
    with pytest.raises(DataFileError, match=r"data\.locked: cannot be read: Permission denied$"):
        read(write("data.locked", LIBSVM))


def test_the_bound_of_compressed_files_grows_with_them(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_and_text, "MOST_UNPACKED", 1000)
    content = LIBSVM.encode() * 100
    packed = gzip.compress(content)
    assert read_libsvm(write("d.svm.gz", packed)).X.shape[0] == 1200
    monkeypatch.setattr(bytes_and_text, "MOST_TIMES_UNPACKED", len(content) / len(packed) / 2)
    with pytest.raises(DataFileError, match="the file unpacks to more than"):
        read_libsvm(write("d.svm.gz", packed))


# --- the command line, with limits ---------------------------------------------------------------------------------------

MOST_MEMORY = 4 * 2**30  # bytes of address space: an array of 2**31 numbers does not fit
MOST_RESIDENT = 700  # MB; importing takes 160
RUN_COMMANDS = f"""
import json, re, resource, sys, time
from pathlib import Path

def most_resident_so_far():  # in MB; getrusage would count what the parent had when it started this process
    status = Path("/proc/self/status")
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text())[1]) // 1024 if status.exists() else 0

resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY}, {MOST_MEMORY}))
from click.testing import CliRunner
from maxmargin.cli.commands import maxmargin
for words in json.load(sys.stdin):
    start = time.perf_counter()
    result = CliRunner().invoke(maxmargin, words)
    raised = None if isinstance(result.exception, SystemExit) else result.exception
    seconds = time.perf_counter() - start
    print(json.dumps([result.exit_code, result.stderr, repr(raised), seconds, most_resident_so_far()]), flush=True)
"""
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2"}  # each thread reserves address space


def run_in_limits(folder: Path, commands: list[list[str]], seconds: float = 100.0) -> list[Any]:
    """Run the commands in one process of limited memory: exit code, stderr, exception, seconds and resident MB of each."""
    pytest.importorskip("resource")
    pytest.importorskip("click")
    process = subprocess.run(
        [sys.executable, "-c", RUN_COMMANDS], input=json.dumps(commands), cwd=folder, env=ENVIRONMENT, capture_output=True,
        text=True, timeout=seconds, check=False,
    )  # fmt: skip
    results = [json.loads(line) for line in process.stdout.splitlines()]
    assert len(results) == len(commands), f"{commands[len(results)]} ended the process:\n{process.stderr}"
    return results


def check_refused(result: Any, message: str) -> None:
    code, stderr, raised, seconds, _ = result
    assert (code, raised) == (2, "None")
    errors = [line for line in stderr.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == 1
    assert errors[0].startswith("Error: ")
    assert errors[0].isprintable()
    assert message in errors[0]
    assert len(errors[0]) < 2 * LONGEST_MESSAGE
    assert seconds < 4 * SLOWEST


def fitted_pipeline() -> Any:
    return make_pipeline(StandardScaler(), SVC(C=3.0)).fit(X, LABELS)


def make_hostile_files(folder: Path) -> None:
    (folder / "good.csv").write_text(NUMBERS_CSV)
    (folder / "good.svm").write_text(LIBSVM)
    joblib.dump(fitted_pipeline(), folder / "good.joblib")
    (folder / "index.svm").write_text("1 1:1\n-1 2147483646:1\n" * 3)
    (folder / "wide.svm").write_text("1 1:1 20000000:1\n-1 2:1 3:1\n" * 3)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    with (folder / "hole").open("wb") as file:
        file.truncate(10**11)
    (folder / "bomb.svm.gz").write_bytes(gzip.compress(b"1 1:1\n" * 2 * MILLION) * 50)
    (folder / "label.csv").write_text("1,2,a\n" * 20_000 + f"1,2,{'b' * 100_000}\n")
    (folder / "classes.csv").write_text("".join(f"{i % 7},{i % 5},{i % 1000}\n" for i in range(2000)))
    (folder / "names.csv").write_text("".join(f"{i % 7},{i % 5},id{i % 1000}\n" for i in range(2000)))
    (folder / "large.csv").write_text("1,1e200,0\n1,2,1\n" * 4)
    (folder / "cut.joblib").write_bytes((folder / "good.joblib").read_bytes()[:900])
    (folder / "cut.gz").write_bytes(gzip.compress(CLASSIFIER.encode())[:-20])
    (folder / "text.model").write_text(CLASSIFIER.replace("svm_type", "svn_type"))
    (folder / "damaged.model").write_text(CLASSIFIER.replace("0.73", "0.7.3"))
    (folder / "other.model").write_text(CLASSIFIER.replace("0.73", "0.74"))
    joblib.dump("good.csv", folder / "name.joblib")
    joblib.dump(make_pipeline(StandardScaler()).fit(X), folder / "scaler.joblib")
    pipeline = fitted_pipeline()
    pipeline[-1].dual_coef_ = pipeline[-1].dual_coef_[:, :-1]
    joblib.dump(pipeline, folder / "short.joblib")
    sparse = make_pipeline(SVC().fit(csr_matrix(X), LABELS))
    sparse[-1].support_vectors_.indices[0] = 2**30
    joblib.dump(sparse, folder / "sparse.joblib")
    del pipeline[-1].classes_, pipeline[-1].dual_coef_
    joblib.dump(pipeline, folder / "attribute.joblib")


NOT_REGULAR = "cannot be read: it is not a regular file"
HOSTILE = {
    "train index.svm": "index.svm, line 2: an index beyond 100,000,000",
    "train folder": "folder: cannot be read: it is a folder",
    "train pipe": f"pipe: {NOT_REGULAR}",
    "train /dev/zero": f"/dev/zero: {NOT_REGULAR}",
    "train hole": "hole, line 1: a NUL byte",
    "train bomb.svm.gz": "bomb.svm.gz: the file unpacks to more than 268,435,456 bytes",
    "train label.csv": "label.csv, line 20001: a label of 100000 characters",
    "train names.csv": "names.csv: 1000 classes for 2000 samples (is this the target column?",
    "train classes.csv -s svc": "classes.csv: the target column has 1000 different numbers in 2000 samples, and",
    "train large.csv": "the features have values as large as 1e+200, too large to be standardised",
    "tune index.svm": "index.svm, line 2: an index beyond 100,000,000",
    "predict good.joblib pipe": f"pipe: {NOT_REGULAR}",
    "predict good.joblib index.svm": "index.svm, line 2: an index beyond the 3 features expected",
    "predict folder good.csv": "folder: cannot be read: it is a folder",
    "predict pipe good.csv": f"pipe: {NOT_REGULAR}",
    "predict absent good.csv": "absent: no such file",
    "predict hole good.csv": "hole: not a model that joblib",
    "predict cut.joblib good.csv": "cut.joblib: not a model that joblib",
    "predict good.csv good.csv": "good.csv: not a model that joblib",
    "predict name.joblib good.csv": "name.joblib: holds a str, not a model",
    "predict scaler.joblib good.csv": "scaler.joblib: ends in a StandardScaler, not in a fitted support vector machine",
    "predict short.joblib good.csv": "short.joblib: the model is damaged: its support vectors have shape",
    "predict sparse.joblib good.svm": "sparse.joblib: ",
    "predict attribute.joblib good.csv": "attribute.joblib: ",
    "audit folder good.csv": "folder: cannot be read: it is a folder",
    "audit pipe good.csv": f"pipe: {NOT_REGULAR}",
    "audit hole good.csv": "hole: neither a LIBSVM model file, nor one that joblib",
    "audit cut.gz good.csv": "cut.gz: ",
    "audit text.model good.csv": "text.model: neither a LIBSVM model file, nor one that joblib or `train --save` wrote",
    "audit damaged.model good.csv": "damaged.model, line 13: not 2 coefficients and pairs index:value: '1:0.7.3'",
    "audit other.model good.csv": "other.model: support vector 3 is not a row of X",
    "audit name.joblib good.csv": "name.joblib: holds a str, not a model",
    "audit sparse.joblib good.svm": "sparse.joblib: ",
    "audit attribute.joblib good.csv": "attribute.joblib: ",
    "audit good.joblib index.svm": "index.svm, line 2: an index beyond the 3 features expected",
}
HARMLESS = [
    "train wide.svm --test-size 0",
    "train good.svm --test-size 0",
    "predict good.joblib good.csv",
    "audit good.joblib good.csv",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs pipes with names")
    folder = tmp_path_factory.mktemp("hostile")
    make_hostile_files(folder)
    commands = [*HOSTILE, *HARMLESS]
    return dict(zip(commands, run_in_limits(folder, [command.split() for command in commands]), strict=True))


@pytest.mark.parametrize("command", HOSTILE)
def test_hostile_files_on_the_command_line(results: dict[str, Any], command: str) -> None:
    check_refused(results[command], HOSTILE[command])


@pytest.mark.parametrize("command", HARMLESS)
def test_harmless_files_on_the_command_line(results: dict[str, Any], command: str) -> None:
    code, stderr, raised, seconds, _ = results[command]
    assert (code, raised) == (0, "None"), stderr
    assert seconds < 6 * SLOWEST


def test_the_memory_that_all_of_them_took(results: dict[str, Any]) -> None:
    resident = {command: result[-1] for command, result in results.items()}
    assert max(resident.values()) < MOST_RESIDENT, resident


def test_mutants_of_pickled_models(tmp_path: Path) -> None:
    """A damaged pickle can raise anything, and a damaged array can hold anything."""
    (tmp_path / "data.svm").write_text(LIBSVM)
    joblib.dump(make_pipeline(SVC().fit(csr_matrix(X), LABELS)), tmp_path / "model.joblib")
    original, rng = (tmp_path / "model.joblib").read_bytes(), random.Random(0)
    names = [f"mutant{number}.joblib" for number in range(200)]
    for name in names:
        (tmp_path / name).write_bytes(rng.choice([flip_bit, flip_bit, cut, drop_bytes])(original, rng))
    results = run_in_limits(tmp_path, [[command, name, "data.svm"] for name in names for command in ("predict", "audit")])
    for number, result in enumerate(results):
        if result[0] != 0:
            check_refused(result, f"{names[number // 2]}: ")
    assert max(result[-1] for result in results) < MOST_RESIDENT
    assert 200 < sum(result[0] != 0 for result in results) < 400


def test_a_refused_file_in_a_process_of_its_own(write: Any, tmp_path: Path) -> None:
    write("data.csv", "1,2,0\n3,x,1\n")
    process = subprocess.run(
        [sys.executable, "-m", "maxmargin.cli", "train", "data.csv"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("Error: data.csv, line 2: 'x' in column 2 is not a number")
    assert process.stderr.count("\n") == 1


# --- Ctrl-C ------------------------------------------------------------------------------------------------------------

PRESS_CTRL_C_DURING_IMPORTS = """
import os, signal, sys

class Press:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "sklearn.svm"):
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
signal.signal(signal.SIGINT, {handler})
sys.argv[1:] = ["train", "--dataset", "iris", "--no-plot"]
from maxmargin.cli import main
assert "numpy" not in sys.modules
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("handler", "code"), [("signal.default_int_handler", -signal.SIGINT), ("signal.SIG_IGN", 0)])
def test_ctrl_c_during_imports(handler: str, code: int) -> None:
    """It ends the process without a word, which shells report as 130; unless it is ignored, as in the background."""
    pytest.importorskip("click")
    script = PRESS_CTRL_C_DURING_IMPORTS.format(handler=handler)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (process.returncode, process.stderr) == (code, "")
    assert (process.stdout == "") == (code != 0)


def test_ctrl_c_is_as_it_was_after_imports() -> None:
    from maxmargin.cli import ctrl_c_kills

    before = signal.getsignal(signal.SIGINT)
    with ctrl_c_kills():
        assert (signal.getsignal(signal.SIGINT) is before) == (before is not signal.default_int_handler)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_a_file_is_read(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    testing = pytest.importorskip("click.testing")
    from maxmargin import io
    from maxmargin.cli import commands

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(io, "read_table", interrupted)
    result = testing.CliRunner().invoke(commands.maxmargin, ["train", str(write("d.csv", NUMBERS_CSV)), "--no-plot"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
