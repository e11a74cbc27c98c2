"""Models in files. The ending decides how one is written: .safetensors, .model (LIBSVM's format), .onnx, else joblib."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import io
from maxmargin.cli.errors import BadInput, failure_blamed_on, message_of
from maxmargin.cli.kernel_matrix import kernel_values
from maxmargin.io import Columns, Table
from maxmargin.io.bytes_and_text import open_bytes
from maxmargin.kernels import is_precomputed

NATIVE, LIBSVM, ONNX = ".safetensors", ".model", ".onnx"


@dataclass(frozen=True)
class Model:
    """A fitted pipeline from a file, the columns it was trained on if they have names, and its path if it is LIBSVM's."""

    pipeline: Pipeline
    columns: Columns | None = None
    libsvm: Path | None = None

    @property
    def machine(self) -> Any:
        """The machine at the end of the pipeline."""
        return self.pipeline.steps[-1][1]

    @property
    def task(self) -> str:
        """What the machine learned: classes, values or novelty."""
        return "classes" if is_classifier(self.machine) else "novelty" if is_outlier_detector(self.machine) else "values"

    def reading(self) -> dict[str, Any]:
        """How a data file must be read for this model: with its columns, and with missing values if it imputes them."""
        imputes = any(isinstance(step, SimpleImputer) for _, step in self.pipeline.steps)
        return {
            "columns": self.columns,
            "n_features": int(self.pipeline.n_features_in_),
            "wider": self.libsvm is not None or self.of_kernel,
            "zero_based": True if self.of_kernel else None,
            "missing": "keep" if imputes else "refuse",
        }

    def fitting(self, table: Table) -> tuple[Any, Any]:
        """The pipeline and the samples, as wide as each other and dense or sparse as the model is.

        A LIBSVM model file does not say how many features there are: its support vectors may lack the last ones, and so may the
        samples.
        """
        pipeline = self.pipeline
        X: Any = table.X
        if self.of_kernel:
            X = kernel_values(table, int(pipeline.n_features_in_), wider=self.libsvm is not None).X
        elif self.libsvm is not None and issparse(X):
            X = csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], max(int(X.shape[1]), int(pipeline.n_features_in_))))
        if self.libsvm is not None and X.shape[1] > pipeline.n_features_in_:
            pipeline = Pipeline([("machine", io.read_libsvm_model(self.libsvm, n_features=int(X.shape[1])))])
        return pipeline, X.toarray() if issparse(X) and self.trained_dense else X

    @property
    def of_kernel(self) -> bool:
        """Whether the samples are rows of a kernel matrix."""
        return is_precomputed(getattr(self.machine, "kernel", None))

    @property
    def trained_dense(self) -> bool:
        """Whether the machine was trained on dense samples, as far as it matters: it keeps some, or they were centred."""
        kept = getattr(self.machine, "support_vectors_", getattr(self.machine, "X_fit_", None))
        centred = any(getattr(step, "mean_", None) is not None for _, step in self.pipeline.steps)
        return centred or (kept is not None and not issparse(kept))


def save(pipeline: Pipeline, path: Path, table: Table) -> None:
    """Write a fitted pipeline, and the names of its columns."""
    machine = pipeline.steps[-1][1]
    columns = Columns.of(table)
    machine.columns_ = None if columns is None else columns.to_dict()
    match path.suffix.lower():
        case str(ending) if ending == LIBSVM:
            if steps := [name for name, _ in pipeline.steps[:-1]]:
                raise BadInput(f"{path}: a LIBSVM model file does not hold the steps {', '.join(steps)} (see maxmargin scale)")
            io.write_libsvm_model(machine, path)
        case str(ending) if ending == NATIVE:
            machine.preparation_ = _preparation(pipeline)
            machine.save(path)
        case str(ending) if ending == ONNX:
            path.write_bytes(io.to_onnx(pipeline).SerializeToString())
        case _:
            joblib.dump(pipeline, path)


def load(path: Path, data: Path | None = None) -> Model:
    """Read a model that `save`, svm-train or `maxmargin.io.save` wrote, or one that joblib did. `data` is the file of samples; a
    message says if they are in the order of svm-predict."""
    _require_model_first(path, data)
    if io.is_libsvm_model(path):
        return Model(Pipeline([("machine", io.read_libsvm_model(path))]), libsvm=path)
    if path.suffix.lower() == NATIVE:
        machine = maxmargin.load(path)
        with failure_blamed_on(path):
            pipeline = Pipeline([*_steps(getattr(machine, "preparation_", None) or {}), ("machine", machine)])
    else:
        pipeline = _load_pickle(path)
    columns = getattr(pipeline.steps[-1][1], "columns_", None)
    with failure_blamed_on(path):
        return Model(pipeline, Columns.from_dict(columns) if columns else None)


def _require_model_first(path: Path, data: Path | None) -> None:
    name = click.format_filename(path)
    if str(path) == "-":
        raise BadInput("MODEL -: only FILE can be -, the standard input; name the file of the model")
    if data is not None and data.is_file() and _is_safe_model(data) and not _is_safe_model(path):
        raise BadInput(f"{click.format_filename(data)} is a model: MODEL comes first, then FILE")
    if path.suffix.lower() == ONNX:
        raise BadInput(
            f"{name}: an ONNX graph is for ONNX runtimes (write the model to {path.stem}{NATIVE} too, and use that here)"
        )


def _is_safe_model(path: Path) -> bool:
    """Whether a file is a model that can be read without running code."""
    return path.suffix.lower() == NATIVE or io.is_libsvm_model(path)


def load_any(path: Path, data: Path) -> tuple[Any, dict[str, Any]]:
    """Read a model of any library for an audit of it with `data`: the model, and how its data file must be read."""
    _require_model_first(path, data)
    if io.is_libsvm_model(path):
        return path, {}
    if path.suffix.lower() == NATIVE:
        model = load(path)
        return model.pipeline, model.reading()
    model = unpickle(path, "a LIBSVM model file, nor one ")
    with failure_blamed_on(path):
        machine = model.steps[-1][1] if hasattr(model, "steps") else model
        if hasattr(model, "steps") and getattr(machine, "columns_", None):
            return model, Model(model, Columns.from_dict(machine.columns_)).reading()
        return model, {"n_features": getattr(model, "n_features_in_", None)}


def _preparation(pipeline: Pipeline) -> dict[str, Any]:
    """The steps before the machine as numbers."""
    steps = pipeline.named_steps
    impute, scale = steps.get("impute"), steps.get("scale")
    return {
        "impute": None if impute is None else impute.statistics_,
        "mean": None if scale is None else scale.mean_,
        "scale": None if scale is None else scale.scale_,
    }


def _steps(preparation: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The inverse of `_preparation`."""
    impute, mean, scale = (preparation.get(name) for name in ("impute", "mean", "scale"))
    steps = list[tuple[str, Any]]()
    if impute is not None:
        steps.append(("impute", SimpleImputer(keep_empty_features=True).fit(np.reshape(impute, (1, -1)))))
    if scale is not None:
        scaler = StandardScaler(with_mean=mean is not None)
        scaler.mean_, scaler.scale_, scaler.var_, scaler.n_features_in_ = mean, scale, scale**2, len(scale)
        steps.append(("scale", scaler))
    return steps


def unpickle(path: Path, nor: str = "") -> Any:
    """Return what joblib loads from `path`; `nor` names the other kind of file that would have been accepted, for the message."""
    with open_bytes(path):  # a missing file, a folder and a pipe are refused by name
        pass
    try:
        model = joblib.load(path)
    except Exception as error:  # a damaged pickle can raise anything
        not_a_model = f"{'neither ' if nor else 'not a model '}{nor}that joblib or `train --save` wrote"
        raise BadInput(f"{click.format_filename(path)}: {not_a_model} ({message_of(error)})") from error
    with failure_blamed_on(path):
        if isinstance(model, str | PathLike):  # `audit` would take it for the name of a file
            raise TypeError(f"holds a {type(model).__name__}, not a model")
        _require_sound(model.steps[-1][1] if hasattr(model, "steps") else model)
    return model


def _load_pickle(path: Path) -> Pipeline:
    model = unpickle(path)
    with failure_blamed_on(path):
        if hasattr(model, "dual_coef_") or hasattr(model, "coef_"):
            model = Pipeline([("machine", model)])
        if not hasattr(model, "steps") or not hasattr(model, "n_features_in_"):
            raise BadInput(f"{path}: holds a {type(model).__name__}, not a model that `train --save` wrote")
        if not any(hasattr(model.steps[-1][1], name) for name in ("dual_coef_", "coef_", "support_vectors_")):
            raise BadInput(f"{path}: ends in a {type(model.steps[-1][1]).__name__}, not in a fitted support vector machine")
    return model


def _require_sound(machine: Any) -> None:
    """Refuse a machine whose arrays do not fit each other: compiled code would read beyond their ends."""
    vectors, coefficients = (getattr(machine, name, None) for name in ("support_vectors_", "dual_coef_"))
    if vectors is None or coefficients is None or getattr(machine, "kernel", None) == "precomputed":
        return
    for matrix in (vectors, coefficients):
        if issparse(matrix):
            matrix.check_format(full_check=True)
    expected = coefficients.shape[-1], getattr(machine, "n_features_in_", vectors.shape[1])
    if vectors.shape != expected:
        raise ValueError(f"the model is damaged: its support vectors have shape {vectors.shape}, and must have {expected}")
    if machine.support_.shape != expected[:1]:
        raise ValueError(f"the model is damaged: support_ has shape {machine.support_.shape}, and must have {expected[:1]}")
