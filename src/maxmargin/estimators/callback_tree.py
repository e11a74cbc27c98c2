"""A fit as scikit-learn's callbacks see it: a tree of tasks, fit > machine > iteration.

The protocol is experimental and came with scikit-learn 1.9; with an older version there are no such callbacks, and everything
here does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from maxmargin.control import Progress

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An empty stand-in: this version of scikit-learn has no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        return method


__all__ = ["CallbackSupportMixin", "CallbackTree", "with_callbacks"]


class CallbackTree:
    """The tasks of one fit of an estimator."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        #: Whether there are callbacks, set by the user or handed down by a meta-estimator.
        self.watched = bool(getattr(estimator, "_skl_callbacks", ()))
        self._data: dict[str, Any] = {}
        self._fit: Any = None
        self._machine: Any = None

    def begin(self, n_machines: int, **data: Any) -> None:
        """Begin the task of the whole fit; `data` is what callbacks may ask for: X, y and metadata."""
        if self.watched:
            self._data = data
            self._fit = self._estimator._init_callback_context(max_subtasks=n_machines)
            self._fit.call_on_fit_task_begin(estimator=self._estimator, **data)

    def machine(self) -> AbstractContextManager[None]:
        """The task of one machine; the number of its iterations is not known beforehand."""
        return nullcontext() if self._fit is None else self._watched_machine()

    @contextmanager
    def _watched_machine(self) -> Iterator[None]:
        self._machine = self._fit.subcontext("machine", max_subtasks=None)
        self._machine.call_on_fit_task_begin(estimator=self._estimator)
        yield
        self._machine.call_on_fit_task_end(estimator=self._estimator)

    def report(self, progress: Progress) -> bool:
        """Report an iteration as a task; return whether a callback asks to stop."""
        if self._machine is None:
            return False
        iteration = self._machine.subcontext("iteration")
        iteration.call_on_fit_task_begin(estimator=self._estimator)
        return bool(iteration.call_on_fit_task_end(estimator=self._estimator))

    def end(self) -> None:
        """End the task of the whole fit: the estimator is ready to predict."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes={}, **self._data)
