"""Callbacks, which watch a fit and may stop it.

A callback is any callable that takes a `Progress`; returning True stops the fit. If it has a method `close`, the fit calls it
at its end, however it ends.
"""

from __future__ import annotations

from typing import Any

from maxmargin.control import Progress

__all__ = ["Progress", "ProgressBar"]


class ProgressBar:
    """A progress bar that shows the relative gap and the remaining time (needs tqdm: ``pip install maxmargin[progress]``)."""

    def __init__(self, **options: Any) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError("ProgressBar needs tqdm: pip install maxmargin[progress]") from error
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
        self._bar.set_postfix_str(f"gap {progress.gap:.1e}{machine}", refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        """Leave the bar on the screen as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_bar": None}
