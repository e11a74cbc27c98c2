"""The slack itself: c xi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.formulations.losses.base import Loss, Vector


@dataclass(frozen=True)
class Hinge(Loss):
    name: ClassVar[str] = "hinge"
    regression_name: ClassVar[str] = "epsilon_insensitive"

    def box(self, cost: Vector) -> tuple[Vector, Vector | None]:
        return cost, None
