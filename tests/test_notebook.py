"""What people see of a result: tables in notebooks, dictionaries, sentences and progress bars."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import sklearn.svm
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris

from maxmargin import SVC, SVCCV, SVR, KernelRegressor, LinearSVC, NuSVC, OneClassSVM, Status, audit, notebook
from maxmargin.callbacks import Progress, ProgressBar

X, Y = load_iris(return_X_y=True)
HOSTILE = "<script>alert('&')</script>"
MODELS = [SVC(), NuSVC(nu=0.1), LinearSVC(), SVR(), OneClassSVM(), KernelRegressor(), SVCCV(Cs=[1.0], gammas=[0.1, 1.0], cv=3)]


class Cells(HTMLParser):
    """The text of the cells of all tables; an error if a tag is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open:
            self.cells[-1] += data

    @property
    def table(self) -> dict[str, str]:
        return dict(zip(self.cells[::2], self.cells[1::2], strict=True))


def test_a_certificate_as_a_table() -> None:
    proof = SVC().fit(X, Y).certificate_
    html = proof._repr_html_()
    assert Cells(html).table["relative gap"] == f"{proof.relative_gap:.3g}"
    assert "certificate of 3 machines together" in html
    assert not re.search(r"<(script|link|img|style)|https?:|url\(", html)
    assert "#" not in html  # no colours but those of the page, and grey


def test_everything_that_is_shown_is_escaped() -> None:
    X2, y2 = X[:100], Y[:100]
    proof = replace(SVC().fit(X2, y2).certificate_, arithmetic=HOSTILE)
    found = replace(audit(sklearn.svm.SVC().fit(X2, y2), X2, y2), library=HOSTILE, sentence=HOSTILE)
    for html in (proof._repr_html_(), found._repr_html_(), notebook.html_table(HOSTILE, [(HOSTILE, HOSTILE)], HOSTILE)):
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        Cells(html)


def test_an_audit_as_a_table() -> None:
    found = audit(sklearn.svm.SVC().fit(X, Y), X, Y)
    html = found._repr_html_()
    assert "audit of SVC by scikit-learn, 3 machines together" in html
    assert "its stopping tolerance held" in html
    assert Cells(html).table["duality gap"] == f"{found.gap:.3g}"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_fitted_model_says_what_is_proved(model: Any) -> None:
    model = clone(model)
    plain = model._repr_html_()
    assert "KKT" not in plain
    model.fit(X, Y)
    table = Cells(notebook.html_table("", model._report())).table
    assert table["status"] == str(model.status_)
    assert all(value in model._repr_html_() for value in (table["status"], table["seconds"]))
    assert model._repr_mimebundle_()["text/html"].endswith(model._html_report())
    if hasattr(model, "best_score_"):
        assert table["best"] == ", ".join(f"{name} = {value:.4g}" for name, value in model.best_params_.items())
        assert table["mean test score, 3 folds"].startswith(f"{model.best_score_:.4g} ± ")
        assert table["fits"].startswith("6 of 6, relative gap at most")
    else:
        assert f"relative {model.certificate_.relative_gap:.3g}" in table["duality gap"]
    if hasattr(model, "support_"):
        assert table["support vectors"].startswith(f"{len(model.support_)} of 150 samples")
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_a_link_to_the_documentation_if_the_package_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Metadata:
        def get_all(self, name: str) -> list[str]:
            return ["Source, https://example.org/code", "Documentation, https://example.org/docs?a=1&b=2"]

    monkeypatch.setattr(notebook, "metadata", lambda name: Metadata())
    notebook.documentation.cache_clear()
    try:
        html = SVC().fit(X, Y).certificate_._repr_html_()
    finally:
        monkeypatch.undo()
        notebook.documentation.cache_clear()
    assert '<a href="https://example.org/docs?a=1&amp;b=2">documentation</a>' in html


def test_dictionaries_of_plain_values() -> None:
    model = SVC().fit(X, Y)
    proof, found = model.certificate_, audit(model, X, Y)
    for one in (proof, found):
        np.testing.assert_equal(
            json.loads(json.dumps(one.to_dict())), one.to_dict()
        )  # NaN is there, as the bias of many machines
    assert proof.to_dict()["gap"] == proof.gap
    assert [part["primal"] for part in proof.to_dict()["parts"]] == [part.primal for part in proof.parts]
    assert "gap_terms" not in proof.to_dict()
    assert found.to_dict()["gap_as_is"] == found.gap_as_is
    np.testing.assert_equal(found.to_dict()["certificate"], found.certificate.to_dict())


def test_a_status_is_its_sentence() -> None:
    for status in Status:
        assert str(status) == f"{status}" == status.value
        assert repr(status).startswith(f"<Status.{status.name}")


# --- a progress bar without tqdm ----------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at(fraction: float) -> Progress:
    return Progress(1.0, machine=1, n_machines=3, iteration=5, steps=900, violation=0.03, gap=0.01, fraction=fraction)


@pytest.fixture
def without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


@pytest.mark.usefixtures("without_tqdm")
def test_a_plain_bar_is_written_over_itself() -> None:
    screen = Terminal()
    bar = ProgressBar(desc="my fit", file=screen, leave=False)
    for fraction in (0.0, 0.5, 0.25, 1.0):
        bar(at(fraction))
    bar.close()
    bar.close()  # a second time does nothing
    lines = screen.getvalue().split("\r")[1:]
    assert [re.search(r"(\d+)%", line)[1] for line in lines] == ["0", "50", "50", "100", "100"]  # never backwards
    assert lines[1].startswith("my fit:  50%|##########          |")
    assert "gap 1.0e-02 machine 2/3" in lines[1]
    assert lines[-1].endswith("\n")
    widths = [len(line.rstrip("\n")) for line in lines]
    assert widths == sorted(widths)  # a shorter line covers the longer one before it


@pytest.mark.usefixtures("without_tqdm")
def test_a_plain_bar_of_a_fit_in_a_file_is_one_line() -> None:
    log = io.StringIO()
    SVC(callbacks=[ProgressBar(file=log)]).fit(X, Y)
    assert log.getvalue().count("\n") == 1
    assert log.getvalue().startswith("fit: 100%|####################|")
