"""The options of a solver: a frozen dataclass whose fields carry the rule for their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from numbers import Integral, Real
from typing import Any, TypeVar


@dataclass(frozen=True)
class SolverOptions:
    """The base class of options, which check themselves; also the options of a solver that has none."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if not option.metadata["fits"](value):
                raise ValueError(f"solver_options: {option.name}={value!r}: must be {option.metadata['rule']}")


def _option(default: Any, fits: Callable[[Any], bool], rule: str) -> Any:
    return field(default=default, metadata={"fits": fits, "rule": rule})


def count(default: int | None) -> Any:
    """An option that is a positive whole number, or None if None is the default."""
    optional = default is None
    rule = "a positive whole number" + (", or None for all samples" if optional else "")
    return _option(default, lambda value: (optional and value is None) or (_is_whole(value) and value > 0), rule)


def seed() -> Any:
    return _option(0, lambda value: _is_whole(value) and value >= 0, "a whole number, at least 0")


def number(default: float, *, least: float = 0.0, most: float = float("inf"), rule: str) -> Any:
    def fits(value: Any) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        return isfinite(value) and least <= float(value) <= most

    return _option(default, fits, rule)


def one_of(*choices: str) -> Any:
    """An option that is one of `choices`; the first one is the default."""
    return _option(choices[0], lambda value: value in choices, "one of " + ", ".join(choices))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


Options = TypeVar("Options", bound=SolverOptions)


def make_options(solver: str, kind: type[Options], given: Mapping[str, Any] | None, seed: int | None = None) -> Options:
    """The options of a solver from those that a user gave; `seed` is the default seed of a solver that uses random numbers."""
    given = dict(given or {})
    allowed = [option.name for option in fields(kind)]
    for name in given:
        if name not in allowed:
            takes = f"takes {', '.join(allowed)}" if allowed else "takes no options"
            raise ValueError(f"solver_options={given!r}: solver={solver!r} has no option {name!r}; it {takes}")
    if seed is not None and "seed" in allowed:
        given.setdefault("seed", seed)
    return kind(**given)
