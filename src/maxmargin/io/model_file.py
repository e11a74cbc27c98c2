"""Model files: a fitted model as safetensors, which holds arrays and text and nothing that runs.

A model is the name of its class, its parameters, and its fitted attributes: everything public that ends in an underscore. The
arrays are tensors; the rest is JSON in the metadata of the file, under the key `maxmargin`:

    {"format": 1, "version": "0.2.0", "sha256": "...", "model": {"class": "SVC", "parameters": {...}, "fitted": {...}}}

`values` says how each value is written, and `soundness` what must fit. `format` is raised when a reader of the old one could not
read the new one. The digest is of the model's JSON and its tensors: it finds damage, not malice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.io.bytes_and_text import open_bytes
from maxmargin.io.soundness import require_sound
from maxmargin.io.table import DataFileError, FilePath, quoted
from maxmargin.io.values import Decoder, Encoder, Tensors, conforms, hints_of

FORMAT = 1
KEY = "maxmargin"
#: Parameters that are not part of a model: functions, of no use to a model that is fitted. They are None after `load`.
LEFT_OUT = ("callbacks",)
SAFETENSORS_DTYPES = frozenset({"BOOL", "F16", "F32", "F64", *(f"{sign}{bits}" for sign in "IU" for bits in (8, 16, 32, 64))})


def save(model: Any, path: FilePath) -> None:
    """Write a fitted model to a file that `load` reads.

    The file holds the parameters, the fitted attributes and the certificate. On the same machine the loaded model gives the same
    decisions bit for bit. A kernel function is not stored, only its name: `load` asks for it.

    Parameters
    ----------
    model : estimator of maxmargin
        The fitted model; ``model.save(path)`` is the same.
    path : str or path
        The file.

    See Also
    --------
    load : The way back.
    to_onnx : A graph for ONNX runtimes.
    write_libsvm_model : LIBSVM's format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.io import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, pathlib.Path(folder) / "iris.safetensors")
    ...     again = load(pathlib.Path(folder) / "iris.safetensors")
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    from safetensors.numpy import save as to_bytes

    from maxmargin import __version__

    if type(model) not in _classes().values():  # a subclass could not be found by its name
        raise TypeError(f"model is a {type(model).__name__}: must be one of {', '.join(_classes())} of maxmargin")
    check_is_fitted(model)
    encoder = Encoder()
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in LEFT_OUT}
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    content = {
        "class": type(model).__name__,
        "parameters": {name: encoder.encode(value, name) for name, value in parameters.items()},
        "fitted": {name: encoder.encode(value, name) for name, value in fitted.items()},
    }
    digest = digest_of(content, encoder.tensors)
    header = {"format": FORMAT, "version": __version__, "sha256": digest, "model": content}
    with open(path, "wb") as file:  # not safetensors' own save_file, whose files only their owner may read
        file.write(to_bytes(encoder.tensors, metadata={KEY: json.dumps(header, allow_nan=False)}))


def load(path: FilePath, *, kernel: Callable[..., Any] | None = None) -> Any:
    """Read a model that `model.save(path)` wrote; no code of the file is run.

    Parameters
    ----------
    path : str or path
        The file.
    kernel : callable, default=None
        The kernel function of the model, if it was fitted with one: a file does not hold functions.

    Returns
    -------
    estimator of maxmargin
        The fitted model, with its certificate.

    Raises
    ------
    DataFileError
        For anything that is not such a file, or not as it was written.

    See Also
    --------
    maxmargin.io.save : Writes the file.
    maxmargin.io.read_libsvm_model : Reads LIBSVM's model files.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import maxmargin
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     maxmargin.SVC(C=10.0).fit(X, y).save(pathlib.Path(folder) / "iris.safetensors")
    ...     model = maxmargin.load(pathlib.Path(folder) / "iris.safetensors")
    >>> model
    SVC(C=10.0)
    >>> model.certificate_.holds(1e-3)
    True
    """
    header, tensors = _read(path)
    try:
        content = header.get("model")
        if header.get("format") != FORMAT:
            found, version = (quoted(str(header.get(name)))[1:-1] for name in ("format", "version"))
            raise ValueError(f"it has format {found} of maxmargin {version}, and this version reads format {FORMAT}")
        if not isinstance(content, dict) or header.get("sha256") != digest_of(content, tensors):
            raise ValueError("the file is damaged: its content is not what was written")
        return _rebuild(content, tensors, kernel)
    except RecursionError:
        raise DataFileError(path, "not a model: its values are nested too deeply") from None
    except ValueError as error:
        raise DataFileError(path, f"not a model that can be read: {error}") from None


def _classes() -> dict[str, type[Any]]:
    from maxmargin import estimators  # late, because estimators import this room to save themselves

    return {name: getattr(estimators, name) for name in estimators.__all__}


def _read(path: FilePath) -> tuple[dict[str, Any], Tensors]:
    """The header of a file and its tensors. safetensors has checked that their declared sizes fill the file."""
    from safetensors import SafetensorError, safe_open

    with open_bytes(path):  # a missing file, a folder and a pipe are refused by name
        pass
    try:
        with safe_open(os.fspath(path), framework="np") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "null"))
            kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
            if not isinstance(header, dict):
                raise ValueError("the file has no model in its metadata")
            if strange := sorted(set(kinds.values()) - SAFETENSORS_DTYPES):
                raise ValueError(f"tensors of the type {quoted(strange[0])[1:-1]}")
            return header, {name: np.require(file.get_tensor(name), requirements=["W", "A"]) for name in kinds}
    except (SafetensorError, ValueError, RecursionError, OverflowError, OSError) as error:
        raise DataFileError(path, f"not a model that `save` wrote, or cut off ({quoted(str(error))[1:-1]})") from None


def digest_of(content: dict[str, Any], tensors: Tensors) -> str:
    """A digest of the JSON of a model and of its tensors."""
    digest = sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype.name} {tensor.shape} ".encode())
        digest.update(np.ascontiguousarray(tensor).data)
    return digest.hexdigest()


def _rebuild(content: dict[str, Any], tensors: Tensors, kernel: Callable[..., Any] | None) -> Any:
    kind = _classes().get(str(content.get("class")))
    if kind is None:
        raise ValueError(f"a model of the unknown class {quoted(str(content.get('class')))}")
    decoder = Decoder(tensors, kernel)
    parts = {}
    for part in ("parameters", "fitted"):
        if not isinstance(content.get(part), dict):
            raise ValueError(f"the model has no {part}")
        parts[part] = {name: decoder.decode(value) for name, value in content[part].items()}
    decoder.require_all_used()
    model = kind()
    _require_parameters(kind, parts["parameters"], set(model.get_params(deep=False)))
    model.set_params(**parts["parameters"])
    for name, value in parts["fitted"].items():
        if not name.isidentifier() or not name.endswith("_") or name.startswith("_") or hasattr(kind, name):
            raise ValueError(f"{quoted(name)} is not the name of a fitted attribute")
        setattr(model, name, value)
    require_sound(model)
    return model


def _require_parameters(kind: type[Any], parameters: dict[str, Any], known: set[str]) -> None:
    """A ValueError unless the parameters are those of the class, with values of their types; None is allowed for all of them, and
    says that a value is not known."""
    hints = hints_of(kind.__init__)
    for name, value in parameters.items():
        if name not in known:
            raise ValueError(f"{kind.__name__} has no parameter {quoted(name)}")
        if value is not None and not conforms(value, hints[name]):
            raise ValueError(f"{name}={quoted(repr(value))} is not a {hints[name]}")
