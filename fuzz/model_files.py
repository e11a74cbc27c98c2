"""Damage to model files of `model.save` that their digest does not find: as by somebody who writes such a file on purpose."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

HOSTILE_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**31,
    10**30,
    1e308,
    "x" * 5000,
    "",
    "os.system",
    [],
    [[[[]]]],
    {},
    {"array": "support_"},
    {"array": "nothing"},
    {"float": "inf"},
    {"float": "nan"},
    {"float": "1"},
    {"number": ["float64", "x"]},
    {"number": ["int8", 1000]},
    {"tuple": [1, 2, 3]},
    {"tuple": 3},
    {"dict": [[[], 1]]},
    {"dict": [1]},
    {"values": ["str", [10**9], ["a"]]},
    {"values": ["object", [2], [{"float": "nan"}, None]]},
    {"values": ["str", [2], ["a", 1]]},
    {"status": "WONDERFUL"},
    {"callable": "os.system"},
    {"rbf kernel": {"gamma": {"float": "inf"}}},
    {"poly kernel": {"degree": 1e300, "gamma": -1.0, "coef0": 0.0}},
    {"precomputed kernel": {}},
    {"certificate": {"gap": 0.0}},
    {"csr_matrix": {"shape": [2, 2], "data": 1, "indices": 2, "indptr": 3}},
    {"__reduce__": ["os.system", "true"]},
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) within a JSON value."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [(value, key) for key, _ in items] + [place for _, item in items for place in _places(item)]


def replace_value(rng: Generator, content: dict[str, Any], tensors: dict[str, Any]) -> None:
    places = _places(content)
    container, key = places[int(rng.integers(len(places)))]
    container[key] = HOSTILE_VALUES[int(rng.integers(len(HOSTILE_VALUES)))]


def drop_value(rng: Generator, content: dict[str, Any], tensors: dict[str, Any]) -> None:
    places = _places(content)
    container, key = places[int(rng.integers(len(places)))]
    del container[key]


def rename_value(rng: Generator, content: dict[str, Any], tensors: dict[str, Any]) -> None:
    places = [place for place in _places(content) if isinstance(place[0], dict)]
    container, key = places[int(rng.integers(len(places)))]
    name = ("__class__", "_last", "predict", "fit", "coef_", "C", "x_", "")[int(rng.integers(8))]
    container[name] = container.pop(key)


def swap_values(rng: Generator, content: dict[str, Any], tensors: dict[str, Any]) -> None:
    places = _places(content["fitted"])
    (one, i), (other, j) = (places[int(k)] for k in rng.integers(len(places), size=2))
    one[i], other[j] = json.loads(json.dumps([other[j], one[i]]))


def change_tensor(rng: Generator, content: dict[str, Any], tensors: dict[str, Any]) -> None:
    name = sorted(tensors)[int(rng.integers(len(tensors)))]
    tensor = tensors[name]
    match int(rng.integers(7)):
        case 0:
            tensors[name] = tensor[:-1]
        case 1:
            tensors[name] = tensor.ravel()
        case 2:
            tensors[name] = tensor[None]
        case 3:
            tensors[name] = tensor.astype([np.int64, np.float16, np.uint8, np.bool_][int(rng.integers(4))])
        case 4:
            tensors[name] = np.zeros((0, 2**40)) if rng.integers(2) else np.zeros((0,))
        case _ if tensor.size:
            hostile = (np.nan, np.inf, 1e300, -1.0) if tensor.dtype.kind == "f" else (-1, 2**31 - 1, -(2**31), 5)
            changed = tensor.ravel().copy()
            with np.errstate(over="ignore"):  # 1e300 is infinite in float32
                changed[int(rng.integers(changed.size))] = hostile[int(rng.integers(4))]
            tensors[name] = changed.reshape(tensor.shape)


def drop_tensor(rng: Generator, content: dict[str, Any], tensors: dict[str, Any]) -> None:
    del tensors[sorted(tensors)[int(rng.integers(len(tensors)))]]


def add_tensor(rng: Generator, content: dict[str, Any], tensors: dict[str, Any]) -> None:
    tensors["extra"] = np.zeros(3)


Damage = Callable[[Generator, dict[str, Any], dict[str, Any]], None]
DAMAGES: tuple[Damage, ...] = (
    replace_value,
    replace_value,
    replace_value,
    drop_value,
    rename_value,
    swap_values,
    change_tensor,
    change_tensor,
    drop_tensor,
    add_tensor,
)


def forge(rng: Generator, file: bytes) -> tuple[bytes, list[str]]:
    """The file with one or two changes and a digest that fits them, and their names."""
    from safetensors import safe_open
    from safetensors.numpy import save

    from maxmargin.io.model_file import KEY, digest_of

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(file)
        with safe_open(str(path), framework="np") as opened:
            header = json.loads(opened.metadata()[KEY])
            tensors = {name: np.array(opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118
    names = []
    for _ in range(int(rng.integers(1, 3))):
        damage = DAMAGES[int(rng.integers(len(DAMAGES)))]
        if isinstance(header["model"].get("fitted"), dict) and tensors:
            damage(rng, header["model"], tensors)
            names.append(damage.__name__)
    header["sha256"] = digest_of(header["model"], tensors)
    return save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, {KEY: json.dumps(header)}), names
