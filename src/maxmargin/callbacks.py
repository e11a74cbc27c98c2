"""Callbacks, which watch a fit and may stop it.

A callback is any callable that takes a `Progress`; returning True stops the fit. If it has a method `close`, the fit calls it
at its end, however it ends.
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from maxmargin.control import Progress

__all__ = ["Progress", "ProgressBar"]


def __dir__() -> list[str]:
    return __all__


class ProgressBar:
    """A progress bar that shows the relative gap and the remaining time.

    With tqdm (``pip install maxmargin[progress]``) it is a bar of tqdm, in a notebook a widget; else a plain line on stderr.

    Parameters
    ----------
    **options
        Options of ``tqdm.tqdm``; the plain line knows ``desc`` (the words in front of the bar) and ``file``.

    See Also
    --------
    Progress : What a callback is told.
    maxmargin.SVC : Its parameter ``callbacks`` takes a list; ``verbose=True`` is this bar.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.callbacks import ProgressBar
    >>> model = SVC(callbacks=[ProgressBar(desc="iris")]).fit(*load_iris(return_X_y=True))
    """

    def __init__(self, **options: Any) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = _PlainBar
        self._tqdm = tqdm
        self._options = options
        self._bar: Any = None

    def __call__(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = self._tqdm(
                total=100,
                bar_format="{l_bar}{bar}| {elapsed}<{remaining}{postfix}",
                **{"leave": True, "desc": "fit"} | self._options,
            )
        self._bar.n = max(self._bar.n, min(100.0, round(100 * progress.fraction, 1)))
        machine = f" machine {progress.machine + 1}/{progress.n_machines}" if progress.n_machines > 1 else ""
        moved = f" {progress.bytes_moved / 1e6:.1f} MB moved" if progress.bytes_moved else ""
        self._bar.set_postfix_str(f"gap {progress.gap:.1e}{machine}{moved}", refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        """Leave the bar on the screen as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_bar": None}


class _PlainBar:
    """The part of tqdm's bar that `ProgressBar` uses, as a line that is written over itself; not on a terminal, its end alone."""

    WIDTH = 20  # characters of a full bar

    def __init__(self, desc: str = "", file: TextIO | None = None, **others: Any) -> None:
        self.n = 0.0
        self._desc, self._file = desc, sys.stderr if file is None else file
        self._began, self._postfix, self._longest = time.perf_counter(), "", 0

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        self._postfix = text

    def refresh(self) -> None:
        if self._file.isatty():
            self._write("")

    def close(self) -> None:
        self._write("\n")

    def _write(self, end: str) -> None:
        done = round(self.WIDTH * self.n / 100.0)
        gone = time.perf_counter() - self._began
        left = f"{gone * (100.0 - self.n) / self.n:.0f} s" if self.n else "?"
        line = f"{self._desc}: {self.n:3.0f}%|{'#' * done:{self.WIDTH}}| {gone:.0f} s, {left} left, {self._postfix}"
        self._longest = max(self._longest, len(line))
        self._file.write(f"\r{line:{self._longest}}{end}" if self._file.isatty() else f"{line}{end}")
        self._file.flush()
