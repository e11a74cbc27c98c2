"""The time from a move of the mouse to the picture in the playground: `python -m benchmarks.playground`.

A point among 200 is dragged in headless Chromium, for each machine and some kernels. The page measures each move itself, from
the event to the end of the drawing ("move to picture"). The server is a process of its own, as with `maxmargin play`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

N_POINTS = 200
MOVES = 60  # of a drag
CASES = (
    ("SVC", "rbf"), ("SVC", "linear"), ("SVC", "poly"), ("SVC", "laplacian"), ("NuSVC", "rbf"), ("OneClassSVM", "rbf"),
    ("SVR", "rbf"), ("NuSVR", "rbf"),
)  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.playground", description=__doc__)
    options.add_argument("--drags", type=int, default=3, help="drags of each machine (default: 3)")
    drags = options.parse_args().drags
    command = [sys.executable, "-m", "maxmargin.cli", "play", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, tempfile.TemporaryDirectory() as folder:
        driver = _browser()
        try:
            driver.get(re.search(r"http://\S+", server.stdout.readline())[0])  # type: ignore[union-attr, index]
            _load_points(driver, Path(folder))
            print(f"{'machine':<14}{'kernel':<12}{'moves':>6}{'best':>10}{'median':>10}{'9 of 10':>10}")
            for machine, kernel in CASES:
                times = sorted(time for _ in range(drags) for time in _drag(driver, machine, kernel))
                slow = times[int(0.9 * len(times))]
                shown = "".join(f"{value:>7.1f} ms" for value in (times[0], statistics.median(times), slow))
                print(f"{machine:<14}{kernel:<12}{len(times):>6}{shown}", flush=True)
        finally:
            driver.quit()
            server.terminate()


def _browser() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,800"):
        options.add_argument(argument)
    return webdriver.Chrome(options, Service(shutil.which("chromedriver")))


def _load_points(driver: Any, folder: Path) -> None:
    """Two clouds that overlap, and one point of them in the middle of the picture, which is dragged."""
    rng = np.random.default_rng(0)
    classes = np.arange(N_POINTS) % 2
    points = rng.normal(size=(N_POINTS, 2)) + 1.2 * (2 * classes[:, None] - 1)
    path = folder / "points.csv"
    path.write_text("a,b,class\n" + "".join(f"{x},{y},{c}\n" for (x, y), c in zip(points, classes, strict=True)))
    driver.find_element("id", "file").send_keys(str(path))
    _wait(driver, f"{N_POINTS} points")


def _wait(driver: Any, text: str) -> None:
    end = time.monotonic() + 30
    while (
        driver.find_element("id", "speed").text != text or driver.find_element("id", "plot").get_attribute("aria-busy") != "false"
    ):
        if time.monotonic() > end:
            raise TimeoutError(f"the page does not say {text!r}: {driver.find_element('id', 'speed').text!r}")
        time.sleep(0.05)


def _drag(driver: Any, machine: str, kernel: str) -> list[float]:
    """Drag whatever is nearest to the centre in small steps; return the times in milliseconds of the pictures that followed."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.ui import Select

    Select(driver.find_element("id", "machine")).select_by_value(machine)
    Select(driver.find_element("id", "kernel")).select_by_value(kernel)
    count = driver.find_element("id", "speed").text
    _wait(driver, count)
    driver.execute_script("performance.clearMeasures()")
    actions = ActionChains(driver, duration=20)
    actions.move_to_element(driver.find_element("id", "canvas")).click_and_hold()
    for step in range(MOVES):
        turn = 2 * np.pi * step / MOVES
        actions.move_by_offset(round(6 * np.cos(turn)), round(6 * np.sin(turn)))
    actions.release().perform()
    _wait(driver, driver.find_element("id", "speed").text)
    found: list[float] = driver.execute_script("return performance.getEntriesByName('move to picture').map((e) => e.duration)")
    driver.find_element("id", "undo").click()
    _wait(driver, count)
    return found


if __name__ == "__main__":
    main()
