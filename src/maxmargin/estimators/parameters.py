"""Parameters of parameters: `kernel__gamma` and `loss__delta` of a machine whose kernel or loss is an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

SEPARATOR = "__"


def store_parameters(arguments: Mapping[str, Any]) -> None:
    """Store the arguments of a constructor, given its `locals()`, as scikit-learn expects them: by name and unchanged."""
    vars(arguments["self"]).update({name: value for name, value in arguments.items() if name != "self"})


class NestedParameters:
    """A mixin for estimators with parameters that are immutable objects. scikit-learn would change such an object in place; here
    it is replaced, so that estimators that share it are not affected."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; if `deep`, those of a kernel or loss object too."""
        own: dict[str, Any] = super().get_params(deep=False)  # type: ignore[misc]
        if not deep:
            return own
        nested = {
            f"{name}{SEPARATOR}{field.name}": getattr(value, field.name)
            for name, value in own.items()
            if is_dataclass(value) and not isinstance(value, type)
            for field in fields(value)
        }
        return {**own, **nested}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; `kernel__gamma=1` replaces a kernel object by one with this gamma."""
        nested = {name: value for name, value in params.items() if SEPARATOR in name}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})  # type: ignore[misc]
        known = self.get_params()
        for name, value in nested.items():
            if name not in known:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {sorted(known)!r}.")
            outer, inner = name.split(SEPARATOR, 1)
            setattr(self, outer, replace(getattr(self, outer), **{inner: value}))
        return self
