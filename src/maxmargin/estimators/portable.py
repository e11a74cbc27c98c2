"""How an estimator travels: into a model file, and into a pickle."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from maxmargin.solution import Status

#: Number of the layout of pickled estimators: raise it when an attribute changes its name or meaning.
LAYOUT = 1
LAYOUT_KEY = "_layout"


class Portable:
    """A mix-in for estimators: `save`, and pickles that say which layout they have."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file, which `maxmargin.load` reads without running any code (see `maxmargin.io.save`)."""
        from maxmargin.io import save

        save(vars(self).get("_on_host", self), path)

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, with the status by its name: its value is a sentence, which may be worded differently in a later
        version, and skops does not read enums."""
        attributes: Any = super().__getstate__()
        state = {**attributes, LAYOUT_KEY: LAYOUT}
        if isinstance(state.get("status_"), Status):
            state["status_"] = state["status_"].name
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        layout = state.get(LAYOUT_KEY)
        if layout != LAYOUT:
            written = "before version 0.2" if layout is None else f"with layout {layout}"
            raise ValueError(
                f"this {type(self).__name__} was pickled {written} of maxmargin, and this version reads layout {LAYOUT}: fit it "
                "again, and keep it with model.save(path), whose files later versions read"
            )
        attributes = {name: value for name, value in state.items() if name != LAYOUT_KEY}
        if "status_" in attributes:
            attributes["status_"] = Status[attributes["status_"]]
        super().__setstate__(attributes)  # type: ignore[misc]
