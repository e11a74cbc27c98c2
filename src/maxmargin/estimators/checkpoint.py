"""Checkpoints of fits that read their rows in passes: arrays in one file, which is replaced as a whole."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

FORMAT = 2


class Checkpoint:
    """The file of a fit. `identity` are numbers and words that say which fit it is; those of another one are refused."""

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self._path = os.fspath(path)
        self._identity = {"format": FORMAT, **identity}

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the file. Whoever is killed here leaves the file that was there before."""
        identity = np.frombuffer(json.dumps(self._identity).encode(), dtype=np.uint8)
        part = f"{self._path}.part"
        with open(part, "wb") as file:
            np.savez(file, identity=identity, **state)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self._path)

    def read(self) -> dict[str, Any] | None:
        """What was written last; None if there is no file."""
        if not os.path.exists(self._path):
            return None
        try:
            with open(self._path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                state = {name: arrays[name] for name in arrays.files}
            identity = json.loads(state.pop("identity").tobytes())
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"checkpoint={self._path!r}: not a checkpoint, or a damaged one ({error}); delete it") from None
        for name, value in self._identity.items():
            if identity.get(name) != value:
                raise ValueError(
                    f"checkpoint={self._path!r}: the file is of another fit ({name} was {identity.get(name)!r} and is "
                    f"{value!r}); delete it, or choose another path"
                )
        return state
