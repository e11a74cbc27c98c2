"""The playground: what its server answers and refuses, and the page in a real browser.

The tests of the page drive Debian's Chromium by Selenium. Without it they are skipped, except where CI=true: there they fail.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin.playground import answer as answers
from maxmargin.playground.server import MOST_BYTES, make_playground
from maxmargin.playground.sets import SETS, make_set, read_set
from maxmargin.playground.task import MACHINES, MOST_NODES, MOST_POINTS, read_task

WINDOW = [-3, 3, -2, 2]
PARAMETERS = {
    "SVC": {"C": 2, "loss": "hinge"},
    "NuSVC": {"nu": 0.3},
    "SVR": {"C": 1, "epsilon": 0.2, "loss": "epsilon_insensitive"},
    "NuSVR": {"C": 1, "nu": 0.4},
    "OneClassSVM": {"nu": 0.2},
}
SET_OF = {"SVC": "moons", "NuSVC": "moons", "SVR": "sine", "NuSVR": "sine", "OneClassSVM": "outliers"}


def make_request(machine="SVC", set_name=None, **changes):
    request = {
        "machine": machine,
        "parameters": {**PARAMETERS[machine], "kernel": "rbf", "gamma": 1},
        "points": make_set(set_name or SET_OF[machine])["points"],
        "window": WINDOW,
        "grid": [30, 20],
    }
    return request | changes


def task_of(request):
    return read_task(json.dumps(request).encode())


def decode(content):
    """The header of an answer, and the bytes after it."""
    length = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + length]), content[4 + length :]


def ask(request):
    return decode(answers.answer(task_of(request)))


# --- the server --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def playground():
    made = make_playground()
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.server.should_exit = True
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.fixture
def send(playground):
    """Send a request to the server; return the status, the headers and the body of the answer."""
    host, token = playground.url.split("/")[2:4]
    connection = http.client.HTTPConnection(host, timeout=10)

    def send(method, path, body=None, headers=None, token=token):
        connection.request(method, f"/{token}{path}", body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()

    yield send
    connection.close()


def test_the_page_is_served_to_those_who_know_the_token(send):
    status, headers, body = send("GET", "/")
    assert status == 200
    assert b"<title>maxmargin playground</title>" in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    for name in re.findall(rb'(?:src|href)="([^"]+)"', body):
        assert send("GET", f"/{name.decode()}")[0] == 200
    for token in ("", "x", "favicon.ico"):
        for path in ("/", "", "/fit", "/main.js"):
            status, _, body = send("GET", path, token=token)
            assert (status, list(json.loads(body))) == (403, ["error"])


def test_the_page_needs_nothing_from_outside(playground):
    pages = Path(answers.__file__).with_name("static")
    for path in pages.iterdir():
        addresses = re.findall(r"https?://[^\s\"'`)]+", path.read_text(encoding="utf-8"))
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, path.name


def test_requests_of_others_are_refused(send, playground):
    host = playground.url.split("/")[2]
    port = host.partition(":")[2]
    body = json.dumps(make_request())
    assert send("POST", "/fit", body, {"Origin": f"http://{host}"})[0] == 200
    assert send("POST", "/fit", body, {"Host": f"localhost:{port}"})[0] == 200
    for origin in ("http://example.org", f"https://{host}", "http://127.0.0.1:1", "null"):
        assert send("POST", "/fit", body, {"Origin": origin})[0] == 403
    for name in ("example.org", f"example.org:{port}", "127.0.0.1", "127.0.0.1:1"):
        assert send("POST", "/fit", body, {"Host": name})[0] == 421


def test_the_server_listens_on_this_machine_only(playground):
    assert playground.listener.getsockname()[0] == "127.0.0.1"
    assert playground.url.startswith("http://127.0.0.1:")


def test_addresses_that_do_not_exist(send):
    assert send("GET", "/nothing.js")[0] == 404
    assert send("GET", "/../server.py")[0] == 404
    assert send("GET", "/..%2fserver.py")[0] == 404
    assert send("GET", "/fit")[0] in (404, 405)
    status, _, body = send("GET", "/sets/mnist")
    assert status == 422
    assert "must be one of moons" in json.loads(body)["error"]
    assert send("GET", "/sets/moons?seed=-1")[0] == 422


def test_bodies_are_limited(send):
    status, _, body = send("POST", "/csv", b"1" * (MOST_BYTES + 1))
    assert status == 413
    assert str(MOST_BYTES) in json.loads(body)["error"]
    assert send("POST", "/fit", iter([b"{}"]), {"Transfer-Encoding": "chunked"})[0] == 413


BAD = {
    "the request is not JSON": "{",
    "must be an object": [],
    "machine='SVM': must be one of SVC": {"machine": "SVM"},
    "parameters: must be": {"parameters": None},
    "kernel=None: must be one of linear": {"parameters": {}},
    "C is missing": {"parameters": {"kernel": "rbf", "loss": "hinge", "gamma": 1}},
    "C='1': must be a finite number": {"parameters": {"C": "1", "kernel": "rbf", "loss": "hinge", "gamma": 1}},
    "The 'C' parameter of SVC must be positive": {"parameters": {"C": -1, "kernel": "rbf", "loss": "hinge", "gamma": 1}},
    "C=1000+: must be a finite": {"parameters": {"C": 10**400, "kernel": "rbf", "loss": "hinge", "gamma": 1}},
    "gamma=None: must be": {"parameters": {"C": 1, "kernel": "rbf", "loss": "hinge", "gamma": None}},
    "gamma=nan: must be": {"parameters": {"C": 1, "kernel": "rbf", "loss": "hinge", "gamma": float("nan")}},
    "The 'loss' parameter of SVC must be": {"parameters": {"C": 1, "kernel": "rbf", "loss": "cubic", "gamma": 1}},
    "points: there are none": {"points": []},
    f"points: {MOST_POINTS + 1} are too many": {"points": [[0, 0, 0]] * (MOST_POINTS + 1)},
    r"points\[1\]=\[0, 0\]: must be": {"points": [[0, 0, 0], [0, 0]]},
    r"points\[0\]=\[inf, 0, 0\]: must be": {"points": [[float("inf"), 0, 0]]},
    r"points\[0\]=\[1e\+300, 0, 0\]: must be": {"points": [[1e300, 0, 0]]},
    r"points\[0\]=\[0, 0, 5\]: the class": {"points": [[0, 0, 5]]},
    "[Cc]lass": {"points": [[0, 0, 0], [1, 1, 0]]},
    "window=.*: must be": {"window": [1, 0, 0, 1]},
    r"grid=\[1, 5\]: must be": {"grid": [1, 5]},
    f"nodes are too many; at most {MOST_NODES}": {"grid": [MOST_NODES, 2]},
    "solver='qp': must be one of": {"solver": "qp"},
    "only SVC can be trained": {"machine": "NuSVC", "solver": "smo-platt"},
    "steps=-1: must be": {"solver": "smo-platt", "steps": -1},
    "steps=3: .* needs a solver": {"steps": 3},
    "with two classes": {"solver": "smo-platt", "points": [[0, 0, 0], [1, 1, 1], [2, 0, 2]]},
}


@pytest.mark.parametrize("pattern", BAD)
def test_bad_requests_are_answered_by_a_sentence(send, pattern):
    change = BAD[pattern]
    body = json.dumps(make_request() | change) if isinstance(change, dict) else change if change == "{" else json.dumps(change)
    status, _, content = send("POST", "/fit", body)
    told = json.loads(content)["error"]
    assert status == 422, told
    assert re.search(pattern, told), told


def test_a_failure_of_the_server_is_told(send, monkeypatch, caplog):
    monkeypatch.setattr("maxmargin.playground.server.answer", lambda task: 1 / 0)
    status, _, body = send("POST", "/fit", json.dumps(make_request()))
    assert status == 500
    assert "ZeroDivisionError" in json.loads(body)["error"]


# --- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
def test_the_answer_is_that_of_the_public_estimator(send, machine):
    request = make_request(machine)
    header, rest = decode(send("POST", "/fit", json.dumps(request))[2])
    points = np.array(request["points"])
    regression = machine in ("SVR", "NuSVR")
    X, y = (points[:, :1], points[:, 1]) if regression else (points[:, :2], points[:, 2].astype(int))
    model = getattr(maxmargin, machine)(**request["parameters"]).fit(X, y)

    for name in ("primal", "dual", "gap", "relative_gap"):
        assert header["certificate"][name] == pytest.approx(getattr(model.certificate_, name), rel=1e-6, abs=1e-9)
    assert header["status"] == model.status_.value
    assert header["converged"]
    assert header["score"] == pytest.approx((model.predict(X) < 0).sum() if machine == "OneClassSVM" else model.score(X, y))
    assert sorted(header["support"]) == sorted(model.support_.tolist())
    decide = model.predict if regression else model.decision_function
    np.testing.assert_allclose(header["values"], decide(X), atol=1e-6)

    x, up = np.linspace(-3, 3, 30), np.linspace(-2, 2, 20)
    nodes = x[:, None] if regression else np.array([(a, b) for b in up for a in x])
    np.testing.assert_allclose(np.frombuffer(rest, "<f4"), decide(nodes), atol=1e-4)


def test_several_classes():
    request = make_request(set_name="blobs", grid=[12, 9])
    header, rest = ask(request)
    task = task_of(request)
    model = maxmargin.SVC(**request["parameters"], decision_function_shape="ovo").fit(task.points, task.classes)
    planes, labels = np.frombuffer(rest[: 3 * 4 * 108], "<f4").reshape(3, 108), np.frombuffer(rest[3 * 4 * 108 :], np.uint8)
    np.testing.assert_allclose(planes, model.decision_function(task.nodes()).T, atol=1e-4)
    assert labels.tolist() == model.predict(task.nodes()).tolist()
    assert header["classes"] == [0, 1, 2]


@pytest.mark.parametrize("machine", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"])
def test_free_support_vectors_are_those_on_the_margin(machine):
    request = make_request(machine)
    header, _ = ask(request)
    points = np.array(request["points"])
    values = np.array(header["values"])
    if machine in ("SVR", "NuSVR"):
        distance = np.abs(points[:, 1] - values) - header["epsilon"]  # beyond the tube
    else:
        distance = -values if machine == "OneClassSVM" else 1 - np.where(points[:, 2] == 1, 1, -1) * values
    support, free = np.array(header["support"]), np.array(header["free"])
    assert 0 < free.sum() < len(free)
    np.testing.assert_allclose(distance[support[free]], 0, atol=2e-3)
    assert (distance[support[~free]] > -2e-3).all()
    assert (np.delete(distance, support) < 2e-3).all()


def test_free_support_vectors_of_several_nu_machines():
    """A support vector is free if it is free in the machine of one pair; the machine of each pair is fitted alone here."""
    request = make_request("NuSVC", "blobs", parameters={"nu": 0.2, "kernel": "rbf", "gamma": 0.5})
    header, _ = ask(request)
    points = np.array(request["points"])
    free = set()
    for pair in combinations(range(3), 2):
        rows = np.flatnonzero(np.isin(points[:, 2], pair))
        model = maxmargin.NuSVC(**request["parameters"]).fit(points[rows, :2], points[rows, 2])
        inside = np.abs(model.dual_coef_[0]) < (1 - 1e-6) / model.rho_
        free |= set(rows[model.support_[inside]].tolist())
    told = {k for k, is_free in zip(header["support"], header["free"], strict=True) if is_free}
    assert 0 < len(told) < len(header["support"])
    assert told == free


def test_a_squared_loss_has_no_bound():
    header, _ = ask(make_request(parameters={"C": 1, "loss": "squared_hinge", "kernel": "linear"}))
    assert all(header["free"])


def test_a_fit_ends_at_its_time_limit(monkeypatch):
    monkeypatch.setattr(answers, "MAX_SECONDS", 1e-6)
    header, _ = ask(make_request(solver="smo-simple"))
    assert not header["converged"]
    assert "max_seconds" in header["status"]


def test_the_hard_margin_without_a_solution_is_told():
    header, _ = ask(make_request(parameters={"C": "inf", "loss": "hinge", "kernel": "linear"}))
    assert not header["converged"]
    assert header["status"].startswith("Not separable")


@pytest.mark.parametrize("solver", ["smo-platt", "smo-simple"])
def test_smo_step_by_step(solver):
    """Each step moves two duals along their equality constraint, and never lowers the dual value; the last one converges."""
    request = make_request(set_name="separable", parameters={"C": 1, "loss": "hinge", "kernel": "linear"}, solver=solver)
    whole, _ = ask(request)
    y = np.array([1 if point[2] else -1 for point in request["points"]])
    dual, alphas = 0.0, np.zeros(len(y))
    for step in range(0, min(whole["steps"], 20) + 1):
        header, _ = ask(request | {"steps": step})
        moved = header["moved"]
        assert len(moved) in ((2,) if step and solver == "smo-platt" else (0, 2))
        assert [before for _, before, _ in moved] == pytest.approx([alphas[k] for k, _, _ in moved])
        for k, _, after in moved:
            alphas[k] = after
        assert sum(y[k] * (after - before) for k, before, after in moved) == pytest.approx(0, abs=1e-9)
        assert header["certificate"]["dual"] >= dual - 1e-9
        dual = header["certificate"]["dual"]
    assert dual > 0
    assert alphas @ y == pytest.approx(0, abs=1e-9)
    assert alphas.any()
    last, _ = ask(request | {"steps": whole["steps"]})
    assert last["certificate"]["dual"] == pytest.approx(whole["certificate"]["dual"], rel=1e-9)
    assert whole["converged"]
    steps, primal, duals = zip(*whole["course"], strict=True)
    assert steps[0] == 0
    assert steps[-1] == whole["steps"]
    assert list(duals) == sorted(duals)
    assert primal[-1] - duals[-1] < 2e-3 * primal[-1]


# --- data and scripts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_classic_sets(name):
    made = make_set(name)
    header, _ = ask(make_request(made["machine"], name))
    assert header["converged"]
    assert make_set(name) == made
    assert (make_set(name, 1) == made) == (name == "iris")


@pytest.mark.parametrize("machine", MACHINES)
def test_the_script_fits_the_same_machine(send, machine, capsys):
    request = make_request(machine)
    header, _ = ask(request)
    status, _, script = send("POST", "/script", json.dumps(request))
    assert status == 200
    assert max(map(len, script.decode().splitlines())) <= 100
    names = {}
    exec(script, names)
    assert names["model"].certificate_.primal == header["certificate"]["primal"]
    assert names["model"].status_.value in capsys.readouterr().out


def test_the_script_of_a_hard_margin_and_of_a_step(send):
    for change in (
        {"parameters": {"C": "inf", "loss": "hinge", "kernel": "poly", "degree": 3, "gamma": "scale", "coef0": 1}},
        {"parameters": {"C": 1, "loss": "squared_hinge", "kernel": "linear"}, "solver": "smo-platt", "steps": 3},
    ):
        request = make_request(set_name="separable") | change
        names = {}
        with pytest.warns(ConvergenceWarning) if "steps" in change else nullcontext():
            exec(send("POST", "/script", json.dumps(request))[2], names)
        assert names["model"].certificate_.dual == ask(request)[0]["certificate"]["dual"]


def test_csv_files(send):
    content = "\ufeffa,b,c,kind\n" + "".join(f"{k},{k % 7},{k * k},{'xyz'[k % 3]}\n" for k in range(30))
    status, _, body = send("POST", "/csv?name=some.csv&columns=0,2", content.encode())
    assert status == 200
    made = json.loads(body)
    assert made["points"][4] == [4, 16, 1]
    assert made["axes"] == ["a", "c"]
    assert made["columns"] == ["a", "b", "c"]
    assert made["labels"] == ["x", "y", "z"]
    assert made["machine"] == "SVC"
    scaled = np.array(json.loads(send("POST", "/csv?standardise=1", content.encode())[2])["points"])
    np.testing.assert_allclose(scaled[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled[:, :2].std(axis=0), 1)


def test_csv_files_with_many_targets_are_regressions():
    made = read_set(b"x,target\n" + b"".join(b"%d,%d.5\n" % (k, 3 * k) for k in range(9)), "line.csv")
    assert made["machine"] == "SVR"
    assert made["points"][2] == [2, 6.5, 0]
    assert made["axes"] == ["x", "target"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a,b,class\n1,2\n", "2 values where the header has 3"),
        ("a,b,class\n1,x,2\n", "'x' in column 'b' is not a number"),
        ("a,class\n1,0\n2,1\n", "1 column of features where 2 are needed"),
        ("a,b,class\n" + "".join(f"1,{k},c{k}\n" for k in range(6)), "6 classes are too many"),
        ("a,b,class\n" + "1,2,0\n" * (MOST_POINTS + 1), "rows are too many"),
        ("a,b,class\n1,1e300,0\n2,2,1\n", "standardise the columns"),
        ("", "no values"),
    ],
)
def test_bad_csv_files(send, content, told):
    status, _, body = send("POST", "/csv?name=bad.csv", content.encode())
    assert status == 422
    assert json.loads(body)["error"].startswith("bad.csv")
    assert told in json.loads(body)["error"]


def test_columns_that_do_not_exist(send):
    for columns in ("0,9", "x", "0,-1", "9" * 40):
        assert send("POST", f"/csv?columns={columns}", b"a,b,class\n1,2,0\n3,4,1\n")[0] == 422


# --- the command -------------------------------------------------------------------------------------------------------


def test_the_command_serves_the_page_until_ctrl_c():
    command = [sys.executable, "-m", "maxmargin.cli", "play", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=10)
        connection.request("GET", "/" + url.split("/", 3)[3])
        assert connection.getresponse().read().startswith(b"<!doctype html>")
        connection.close()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_the_command_without_its_extra(monkeypatch):
    from click.testing import CliRunner

    from maxmargin.cli.play import play

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "maxmargin.playground.server")
    result = CliRunner().invoke(play, ["--no-browser"])
    assert result.exit_code == 2
    assert result.output == "Error: the playground needs Starlette and uvicorn: pip install 'maxmargin[play]'\n"


def test_the_command_with_a_port_in_use(playground):
    from click.testing import CliRunner

    from maxmargin.cli.play import play

    port = playground.url.split("/")[2].partition(":")[2]
    result = CliRunner().invoke(play, ["--no-browser", "--port", port])
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: port={port}: cannot be used (Address already in use)")
    assert len(result.output.splitlines()) == 1


# --- the page in a browser ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium and chromedriver: run `make browser` as root")
        pytest.skip("no Chromium and chromedriver: `make browser` installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,800"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(paths[1]))
    driver.downloads = tmp_path_factory.mktemp("downloads")
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(driver.downloads)})
    yield driver
    driver.quit()


class Page:
    """The page, as its user sees it."""

    def __init__(self, driver, url):
        self.driver = driver
        driver.get(url)
        self.wait_for(lambda: self.count() == 160)

    def __getitem__(self, name):
        return self.driver.find_element("id", name)

    def wait_for(self, condition, seconds=10.0):
        """Wait until the condition holds and the picture shows the last change."""
        end = time.monotonic() + seconds
        while not self._holds(condition):
            assert time.monotonic() < end, f"waited in vain; the page says {self.problem()!r}, {self['speed'].text!r}"
            time.sleep(0.02)

    def _holds(self, condition):
        from selenium.common.exceptions import StaleElementReferenceException

        try:
            return self["plot"].get_attribute("aria-busy") == "false" and condition()
        except StaleElementReferenceException:  # the page has just written the element anew
            return False

    def settled(self):
        self.wait_for(lambda: True)

    def count(self):
        """The number of points, as the page tells it."""
        return int((self["speed"].text or "0").split()[0])

    def problem(self):
        return self["problem"].text

    def number(self, name):
        """A number of the certificate, such as 31.3 or 6.6·10⁻¹³."""
        text = self[f"number-{name}"].text.split(":")[0].replace("−", "-")
        mantissa, _, exponent = text.partition("·10")
        digits = exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        return float(mantissa) * 10.0 ** int(digits or 0)

    def choose(self, name, value):
        from selenium.webdriver.support.ui import Select

        Select(self[name]).select_by_value(value)

    def actions(self):
        from selenium.webdriver import ActionChains

        return ActionChains(self.driver, duration=30)

    def to(self, x, y):
        """Offsets of a place in the picture, given in shares of its size, from its centre: what ActionChains wants."""
        size = self["canvas"].size
        return round((x - 0.5) * size["width"]), round((y - 0.5) * size["height"])

    def click(self, x, y):
        self.actions().move_to_element_with_offset(self["canvas"], *self.to(x, y)).click().perform()

    def drag(self, start, *stops):
        actions = self.actions().move_to_element_with_offset(self["canvas"], *self.to(*start)).click_and_hold()
        for stop in stops:
            actions.move_to_element_with_offset(self["canvas"], *self.to(*stop))
        actions.release().perform()

    def keys(self, *keys, element=None):
        (element or self["canvas"]).send_keys(*keys)

    def type_value(self, name, text):
        field = self[f"{name}-value"]
        field.clear()
        field.send_keys(text, "\n")

    def picture(self):
        return self.driver.execute_script("return document.getElementById('canvas').toDataURL()")

    def downloaded(self, name, seconds=10.0):
        path, end = self.driver.downloads / name, time.monotonic() + seconds
        while not path.exists() or not path.stat().st_size:  # an empty file holds the place of one that is being written
            assert time.monotonic() < end, f"{name} was not downloaded"
            time.sleep(0.02)
        content = path.read_bytes()
        path.unlink()
        return content


@pytest.fixture
def page(driver, playground):
    yield Page(driver, playground.url)
    told = [entry["message"] for entry in driver.get_log("browser") if "status of 422" not in entry["message"]]
    assert not told, "the console of the browser"


def test_the_page_shows_a_certified_machine(page):
    assert page["status"].text.startswith("Converged")
    assert page.number("Relative-gap") < 1e-3
    assert page.number("Primal-value") == pytest.approx(page.number("Dual-value"), rel=1e-3)
    assert re.fullmatch(r"\d+: \d+ free, \d+ at the bound", page["number-Support-vectors"].text)
    assert float(page["gamma-value"].get_attribute("value")) > 0
    assert not page.problem()


def test_clicks_draw_drag_and_erase_points(page):
    page["clear"].click()
    page.wait_for(lambda: page["hint"].is_displayed())
    page.click(0.3, 0.5)
    page.wait_for(lambda: "class" in page.problem().lower())  # one class is not enough, and the page says so
    page["class-1"].find_element("xpath", "..").click()
    page.click(0.7, 0.5)
    page.wait_for(lambda: page.count() == 2 and not page.problem())
    first, value = page.picture(), page.number("Dual-value")
    page.drag((0.7, 0.5), (0.6, 0.45), (0.5, 0.4))
    page.wait_for(lambda: page.number("Dual-value") != value)
    assert page.count() == 2
    assert page.picture() != first
    page["undo"].click()
    page.wait_for(lambda: page.number("Dual-value") == value)
    assert page.picture() == first

    page.click(0.8, 0.2)
    page.wait_for(lambda: page.count() == 3)
    page.actions().move_to_element_with_offset(page["canvas"], *page.to(0.8, 0.2)).context_click().perform()
    page.wait_for(lambda: page.count() == 2)
    page.driver.find_element("css selector", "input[value=erase]").find_element("xpath", "..").click()
    page.drag((0.1, 0.5), (0.3, 0.5), (0.7, 0.5))
    page.wait_for(lambda: page["hint"].is_displayed())
    assert page["status"].text == "No points yet."


def test_a_drag_is_followed_by_the_machine(page):
    """The picture is measured from each move to the end of its drawing: docs/playground.md has the figures."""
    page.driver.execute_script("performance.clearMeasures()")
    page.drag((0.5, 0.1), *[(0.5 + 0.01 * k, 0.1 + 0.02 * k) for k in range(12)])
    page.settled()
    durations = page.driver.execute_script("return performance.getEntriesByName('move to picture').map((e) => e.duration)")
    assert len(durations) > 3
    assert min(durations) > 0
    assert page.count() == 161


def test_the_keyboard_draws_moves_and_erases_points(page):
    from selenium.webdriver.common.keys import Keys

    page["clear"].click()
    page.choose("kernel", "linear")
    page.keys("1", Keys.ARROW_LEFT, Keys.SHIFT, Keys.ARROW_LEFT, Keys.NULL, " ")
    page.keys("2", *[Keys.ARROW_RIGHT] * 20, " ")
    page.wait_for(lambda: page.count() == 2)
    assert "class 2" in page["spoken"].get_attribute("textContent")
    value = page.number("Dual-value")
    page.keys("p", " ", *[Keys.ARROW_RIGHT] * 6, " ")
    page.wait_for(lambda: page.number("Dual-value") > value)  # nearer points, smaller margin
    page.keys(Keys.DELETE)
    page.wait_for(lambda: page["problem"].is_displayed())
    page.keys(Keys.CONTROL, "z")
    page.wait_for(lambda: page.count() == 2 and not page.problem())


def test_sliders_and_exact_values(page):
    from selenium.webdriver.common.keys import Keys

    value = page.number("Dual-value")
    page.keys(*[Keys.ARROW_RIGHT] * 10, element=page["C"])
    page.wait_for(lambda: page.number("Dual-value") > value)
    assert float(page["C-value"].get_attribute("value")) == pytest.approx(10**0.5, rel=0.01)
    page.keys(Keys.END, element=page["C"])
    page.wait_for(lambda: page["C-value"].get_attribute("value") == "∞")
    page.type_value("C", "-1")
    page.wait_for(lambda: page.problem().startswith("The 'C' parameter of SVC must be positive"))
    page.type_value("C", "many")
    page.wait_for(lambda: page.problem().startswith("C='many': must be a finite number"))
    page.type_value("C", "1")
    page.wait_for(lambda: page.number("Dual-value") == value)
    assert not page.problem()
    page.type_value("gamma", "20.1234")
    page.wait_for(lambda: page.number("Dual-value") != value)
    assert not page["gamma-auto"].is_selected()
    assert page["gamma-value"].get_attribute("value") == "20.1234"
    page["gamma-auto"].click()
    page.wait_for(lambda: page.number("Dual-value") == value)


def test_machines_kernels_and_losses(page):
    shown = {
        ("SVC", "linear"): {"C"},
        ("SVC", "poly"): {"C", "degree", "gamma", "coef0"},
        ("NuSVC", "rbf"): {"nu", "gamma"},
        ("SVR", "sigmoid"): {"C", "epsilon", "gamma", "coef0"},
        ("NuSVR", "laplacian"): {"C", "nu", "gamma"},
        ("OneClassSVM", "exponential"): {"nu", "gamma"},
    }
    pictures = set()
    for (machine, kernel), names in shown.items():
        page.choose("machine", machine)
        page.choose("kernel", kernel)
        page.wait_for(lambda: page["status"].text != "There is no machine.")
        assert not page.problem()
        assert {name for name in ("C", "nu", "epsilon", "degree", "gamma", "coef0") if page[name].is_displayed()} == names
        assert page["loss"].is_displayed() == (machine in ("SVC", "SVR"))
        pictures.add(page.picture())
    assert len(pictures) == len(shown)
    page.choose("machine", "SVC")
    page.choose("loss", "squared")
    page.wait_for(lambda: ", 0 at the bound" in page["number-Support-vectors"].text)


def test_classic_sets_bring_their_machines(page):
    for name, count, machine, score in (
        ("sine", 90, "SVR", "Training-R-"),
        ("outliers", 124, "OneClassSVM", "Outliers"),
        ("iris", 150, "SVC", "Training-accuracy"),
    ):
        page.choose("set", name)
        page.wait_for(lambda count=count: page.count() == count)
        assert page["machine"].get_attribute("value") == machine
        assert page[f"number-{score}"].is_displayed()
    first = page.picture()
    page.choose("set", "moons")
    page.wait_for(lambda: page.count() == 160)
    picture = page.picture()
    page["again"].click()
    page.wait_for(lambda: page.picture() not in (first, picture))


def test_smo_forwards_and_back(page):
    page.choose("set", "separable")
    page.wait_for(lambda: page.count() == 60)
    page["watch"].click()
    page.wait_for(lambda: page["step-text"].text.startswith("Step 0 of"))
    told = [page["step-text"].text]
    for step in (1, 2, 3):
        page["forward"].click()
        page.wait_for(lambda step=step: page["step-text"].text.startswith(f"Step {step} of"))
        told.append(page["step-text"].text)
    assert told[1].count("→") == 2
    assert len(set(told)) == 4
    picture = page.picture()
    page["last"].click()
    page.wait_for(lambda: page["status"].text.startswith("Converged"))
    assert not page["forward"].is_enabled()
    page["first"].click()
    page.wait_for(lambda: page["step-text"].text == told[0])
    page["go"].click()
    page.wait_for(lambda: page["step-text"].text not in told)
    page["go"].click()
    page.wait_for(lambda: page["go"].accessible_name == "Play")
    page.driver.execute_script("arguments[0].value = 3; arguments[0].dispatchEvent(new Event('input'))", page["step"])
    page.wait_for(lambda: page["step-text"].text == told[3])
    assert page.picture() == picture
    page["back"].click()
    page.wait_for(lambda: page["step-text"].text == told[2])
    page.choose("set", "blobs")
    page.wait_for(lambda: "SMO can be watched with two classes" in page.problem())
    page["watch"].click()
    page.wait_for(lambda: page.count() == 150 and not page.problem())


def test_exports(page, tmp_path):
    page["save-png"].click()
    png = page.downloaded("playground.png")
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 2 * page["canvas"].size["width"]

    page["save-svg"].click()
    svg = ElementTree.fromstring(page.downloaded("playground.svg"))
    marks = [shape for shape in svg if shape.get("fill") in ("#0072b2", "#d55e00") and shape.get("stroke")]
    assert len(marks) == 160
    assert len([shape for shape in svg if shape.tag.endswith("image")]) == 1

    page["show-python"].click()
    page.wait_for(lambda: page["python"].is_displayed())
    names = {}
    exec(page["code"].get_attribute("textContent"), names)
    assert names["model"].certificate_.primal == pytest.approx(page.number("Primal-value"), rel=1e-6)
    page["save-python"].click()
    assert page.downloaded("playground.py").decode() == page["code"].get_attribute("textContent")
    page["close"].click()

    page["save-csv"].click()
    path = tmp_path / "again.csv"
    path.write_bytes(page.downloaded("playground.csv"))
    value = page.number("Primal-value")
    page["clear"].click()
    page["file"].send_keys(str(path))
    page.wait_for(lambda: page["columns"].is_displayed())
    page["standardise"].click()
    page.wait_for(lambda: page.number("Primal-value") == value)


def test_csv_files_in_the_page(page, tmp_path):
    path = tmp_path / "three.csv"
    path.write_text("a,b,c,class\n" + "".join(f"{k},{k % 7},{k * k},{k % 2}\n" for k in range(30)))
    page["file"].send_keys(str(path))
    page.wait_for(lambda: page.count() == 30)
    picture = page.picture()
    page.choose("column-y", "2")
    page.wait_for(lambda: page.picture() != picture)
    path.write_text("a,b,class\n1,2\n")
    page["file"].send_keys(str(path))
    page.wait_for(lambda: page.problem().startswith("three.csv, line 2: 2 values where"))
    assert page.count() == 30


def test_a_server_that_has_gone_is_told(driver):
    gone = make_playground()
    thread = threading.Thread(target=gone.run)
    thread.start()
    page = Page(driver, gone.url)
    gone.server.should_exit = True
    thread.join()
    page.click(0.5, 0.5)
    page.wait_for(lambda: "is `maxmargin play` still running?" in page.problem())
    driver.get("about:blank")
    driver.get_log("browser")


def test_every_control_has_a_name_and_a_visible_focus(page):
    from selenium.webdriver.common.keys import Keys

    controls = page.driver.find_elements("css selector", "button, select, input, canvas[tabindex], summary")
    assert len(controls) > 40
    nameless = [
        control.get_attribute("outerHTML") for control in controls if control.is_displayed() and not control.accessible_name
    ]
    assert not nameless
    reached = set()
    page.driver.execute_script("document.body.tabIndex = -1; document.body.focus()")
    for _ in controls:
        page.actions().send_keys(Keys.TAB).perform()
        name, marked = page.driver.execute_script(
            """const at = document.activeElement, near = [at, at.parentElement, at.nextElementSibling].filter(Boolean);
            const style = near.map((element) => getComputedStyle(element));
            return [at.id || at.value || at.tagName, style.some((s) => s.outlineStyle === 'solid' || s.boxShadow !== 'none')]"""
        )
        if name == "BODY":  # after the last control
            break
        reached.add(name)
        assert marked, f"no visible focus on {name}"
    assert {"canvas", "machine", "kernel", "C", "C-value", "save-png", "watch", "set", "theme"} <= reached


def test_a_new_size_does_not_empty_the_picture(page):
    """The picture is there in the frame of the new size, not only with the answer of the server."""
    drawn = """
        const done = arguments[0], canvas = document.getElementById("canvas"), width = canvas.width;
        window.fetch = () => new Promise(() => {});
        window.setTimeout = () => 0;
        document.getElementById("plot").style.width = "300px";
        const look = () => canvas.width === width ? requestAnimationFrame(look)
          : done(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0));
        requestAnimationFrame(look);
    """
    assert page.driver.execute_async_script(drawn)


def test_a_phone_and_the_dark(page):
    def background():
        return page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    light, picture = background(), page.picture()
    page["theme"].click()
    assert background() != light
    assert page.picture() != picture
    page["theme"].click()
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.wait_for(lambda: page["canvas"].size["width"] < 390)
        assert page.driver.execute_script("return document.documentElement.scrollWidth") == 390
        assert page["canvas"].size["height"] > 250
        page["watch"].click()
        page.wait_for(lambda: page["forward"].is_displayed())
        assert page.driver.execute_script("return document.documentElement.scrollWidth") == 390
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
