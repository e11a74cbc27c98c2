"""Fitted models as ONNX graphs, by converters that are registered with skl2onnx.

X → decisions           a column for each machine: by the operators SVMRegressor and SVMClassifier of ai.onnx.ml, which compute
                        in float32; or by a plain graph in float64, for linear models, for kernels that the operators lack,
                        and where float32 is not accurate enough
  → label               the sign, the vote or the highest score, as `predict` has it
  → probabilities       Platt's sigmoid or a step function for each machine, coupled

model                         outputs                  shape
classifier                    label, decisions         (n,), and the columns of `decision_function`: one for two classes
... with probabilities        label, probabilities     (n,), (n, n_classes)
regressor                     variable                 (n, n_targets)
OneClassSVM                   label, scores            (n, 1), (n, 1)
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin.calibration import LEAST_PROBABILITY, Map, Sigmoid
from maxmargin.kernels import Custom

Matrix = NDArray[np.float64]

OPSET = 13  # version of the operators used here
OPERATOR_KERNELS = {"poly": "POLY", "rbf": "RBF", "sigmoid": "SIGMOID"}
#: The operators of ai.onnx.ml are used if their float32 arithmetic changes a kernel value by no more than this.
MOST_LOST = 2e-6
SINGLE = float(np.finfo(np.float32).eps)
#: The distance that each kernel is a function of
DISTANCES = {"laplacian": "manhattan", "rbf": "squared", "exponential": "euclidean", "matern32": "euclidean"}


def to_onnx(
    model: Any,
    *,
    dtype: DTypeLike = np.float32,
    raw_scores: bool = False,
    initial_types: Any = None,
    target_opset: int | dict[str, int] | None = None,
) -> Any:
    """Convert a fitted model, or a scikit-learn pipeline that ends in one, to ONNX (``pip install 'maxmargin[onnx]'``).

    Parameters
    ----------
    model : estimator of maxmargin or Pipeline
        The fitted model. Its kernel must not be a function.
    dtype : dtype, default=numpy.float32
        The type of the input, float32 or float64. With float64 everything is computed in float64.
    raw_scores : bool, default=False
        Whether the second output of a classifier with probabilities is `decisions` all the same.
    initial_types : list, default=None
        The inputs, as `skl2onnx.to_onnx` takes them. None: one input X of type `dtype`.
    target_opset : int or dict, default=None
        The ONNX version, as `skl2onnx.to_onnx` takes it.

    Returns
    -------
    onnx.ModelProto
        The graph.

    See Also
    --------
    register_onnx_converters : For pipelines that `skl2onnx.to_onnx` converts itself.
    save : A model file for Python.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.io import to_onnx
    >>> graph = to_onnx(SVC().fit(*load_iris(return_X_y=True)))
    >>> [output.name for output in graph.graph.output]
    ['label', 'decisions']
    """
    try:
        from skl2onnx import to_onnx as convert
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    except ImportError as error:
        raise ImportError("to_onnx needs the packages onnx and skl2onnx: pip install 'maxmargin[onnx]'") from error

    check_is_fitted(model)
    register_onnx_converters()
    if initial_types is None:
        kind = FloatTensorType if np.dtype(dtype) == np.float32 else DoubleTensorType
        initial_types = [("X", kind([None, model.n_features_in_]))]
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    options = {id(last): {"raw_scores": True}} if raw_scores else None
    return convert(model, initial_types=initial_types, options=options, target_opset=target_opset)


def register_onnx_converters() -> None:
    """Teach skl2onnx the estimators of maxmargin, so that it converts any pipeline that has one; `to_onnx` calls this.

    Probabilities are a tensor with a column for each class: skl2onnx's option `zipmap`, a list of dictionaries, has no effect.

    See Also
    --------
    to_onnx : Converts a model.

    Examples
    --------
    >>> from maxmargin.io import register_onnx_converters
    >>> register_onnx_converters()
    """
    from skl2onnx import update_registered_converter

    from maxmargin import estimators  # late, because estimators import this room to save themselves

    for name in estimators.__all__:
        alias = f"Maxmargin{name}"
        options = {"raw_scores": [True, False], "zipmap": [True, False, "columns"]}  # skl2onnx sets zipmap in pipelines
        kind = getattr(estimators, name)
        update_registered_converter(kind, alias, _no_shapes, _convert, parser=_parser(alias), options=options)


# --- what skl2onnx calls --------------------------------------------------------------------------------------------


def _parser(alias: str) -> Any:
    def parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
        """Declare the outputs of a model."""
        operator = scope.declare_local_operator(alias, model)
        operator.inputs = inputs
        raw = bool(scope.get_options(model, {"raw_scores": False}).get("raw_scores"))
        for name, kind in _outputs(model, inputs[0].type, raw).items():
            operator.outputs.append(scope.declare_local_variable(name, kind))
        return operator.outputs

    return parse


def _no_shapes(operator: Any) -> None:
    """The parser has declared types and shapes."""


def _outputs(model: Any, given: Any, raw: bool) -> dict[str, Any]:
    """The outputs of a model and their types."""
    from skl2onnx.common import data_types as types

    def numbers(n_columns: int | None) -> Any:
        kind = types.DoubleTensorType if isinstance(given, types.DoubleTensorType) else types.FloatTensorType
        return kind([None, n_columns])

    if hasattr(model, "classes_"):
        labels = {"i": types.Int64TensorType, "U": types.StringTensorType, "b": types.BooleanTensorType}
        label = labels.get(_classes(model).dtype.kind, types.DoubleTensorType)([None])
        if _gives_probabilities(model, raw):
            return {"label": label, "probabilities": numbers(len(model.classes_))}
        return {"label": label, "decisions": numbers(None)}
    if hasattr(model, "offset_"):
        return {"label": types.Int64TensorType([None, 1]), "scores": numbers(1)}
    return {"variable": numbers(None)}


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a model to a graph."""
    from skl2onnx.common.data_types import DoubleTensorType

    model = operator.raw_operator
    raw = bool(container.get_options(model, {"raw_scores": False}).get("raw_scores"))
    double = isinstance(operator.inputs[0].type, DoubleTensorType)
    graph = Graph(scope, container)
    names = [output.full_name for output in operator.outputs]
    values = _results(graph, model, operator.inputs[0].full_name, double, raw)
    for (value, is_number), name in zip(values, names, strict=True):
        if is_number:
            graph.add("Cast", value, to=graph.type_of(np.float64 if double else np.float32), output=name)
        else:
            graph.add("Identity", value, output=name)


def _results(graph: Graph, model: Any, X: str, double: bool, raw: bool) -> list[tuple[str, bool]]:
    """The outputs of a model in the order of `_outputs`, each with whether it has the type of the input."""
    decisions = graph.add("Cast", _decisions(graph, model, X, double), to=graph.type_of(np.float64))
    if hasattr(model, "classes_"):
        label = graph.add("Gather", graph.constant(_classes(model)), _choice(graph, model, decisions), axis=0)
        if _gives_probabilities(model, raw):
            return [(label, False), (_probabilities(graph, model, decisions), True)]
        return [(label, False), (_decision_function(graph, model, decisions), True)]
    if hasattr(model, "offset_"):
        outside = graph.add("Less", decisions, graph.constant(0.0))
        return [(graph.add("Where", outside, graph.constant(-1), graph.constant(1)), False), (decisions, True)]
    return [(decisions, True)]


def _gives_probabilities(model: Any, raw: bool) -> bool:
    return bool(getattr(model, "calibration_", ())) and bool(model.probability) and not raw


def _classes(model: Any) -> NDArray[Any]:
    """The classes as an array that ONNX has: int64, bool, float64 or strings."""
    classes = np.array(model.classes_.tolist())
    return classes.astype(np.int64) if classes.dtype.kind in "iu" else classes


# --- decisions --------------------------------------------------------------------------------------------------------


def _decisions(graph: Graph, model: Any, X: str, double: bool) -> str:
    """The decisions, a column for each machine or target."""
    if hasattr(model, "coef_"):
        weights = np.atleast_2d(_dense(model.coef_))
        return graph.add("Add", graph.product(graph.wide(X), weights.T), graph.constant(np.atleast_1d(model.intercept_)))
    if isinstance(model.kernel_, Custom):
        raise ValueError(
            f"kernel={model.kernel!r}: a function cannot be converted (fit with kernel='precomputed', and give the graph rows of "
            "the kernel matrix)"
        )
    if not double and _operator_suffices(model):
        return _by_operator(graph, model, X)
    if hasattr(model, "X_fit_"):
        coefficients = model.dual_coef_.reshape(len(model.dual_coef_), -1)
        return graph.product(_kernel_matrix(graph, model, graph.wide(X), model.X_fit_), coefficients)
    K = _kernel_matrix(graph, model, graph.wide(X), model.support_vectors_)
    coefficients = _dense(model.dual_coef_)
    if not _by_pairs(model):
        return graph.add("Add", graph.product(K, coefficients.T), graph.constant(model.intercept_))
    return _pair_decisions(graph, model, K, coefficients)


def _pair_decisions(graph: Graph, model: Any, K: str, coefficients: Matrix) -> str:
    """One-vs-one decisions. With S[c, m] the sum over the support vectors of class c in row m of the coefficients, that of the
    pair (i, j) is S[i, j - 1] + S[j, i] + intercept."""
    n_classes = len(model.classes_)
    edges = [0, *np.cumsum(model.n_support_).tolist()]
    sums = []
    for first, last in pairwise(edges):
        of_class = graph.add("Gather", K, graph.constant(np.arange(first, last)), axis=1)
        sums.append(graph.product(of_class, coefficients[:, first:last].T))
    each = graph.add("Concat", *sums, axis=1)
    pairs = list(combinations(range(n_classes), 2))
    places = [i * (n_classes - 1) + j - 1 for i, j in pairs], [j * (n_classes - 1) + i for i, j in pairs]
    halves = [graph.add("Gather", each, graph.constant(np.array(some)), axis=1) for some in places]
    return graph.add("Add", graph.add("Add", *halves), graph.constant(model.intercept_))


def _kernel_matrix(graph: Graph, model: Any, X: str, samples: Any) -> str:
    """The kernel values of each query with each sample, in float64."""
    kernel = model.kernel_
    if kernel.name == "precomputed":  # X has a column for each training sample
        everyone = not hasattr(model, "support_")
        return X if everyone else graph.add("Gather", X, graph.constant(model.support_.astype(np.int64)), axis=1)
    samples = _dense(samples).astype(np.float64)
    match kernel.name:
        case "linear":
            return graph.product(X, samples.T)
        case "rbf" | "laplacian" | "exponential":
            distances = graph.distances(X, samples, DISTANCES[kernel.name])
            return graph.add("Exp", graph.add("Mul", distances, graph.constant(-kernel.gamma)))
        case "matern32":
            scale = graph.constant(np.sqrt(3.0) * kernel.gamma)
            t = graph.add("Mul", graph.distances(X, samples, DISTANCES[kernel.name]), scale)
            return graph.add("Mul", graph.add("Add", t, graph.constant(1.0)), graph.add("Exp", graph.add("Neg", t)))
        case "poly" | "sigmoid":
            # gamma is part of the constant: onnxruntime would fuse a factor into the product, and round it to float32
            inner = graph.add("Add", graph.product(X, kernel.gamma * samples.T), graph.constant(float(kernel.coef0)))
            if kernel.name == "sigmoid":
                return graph.add("Tanh", inner)
            return graph.add("Pow", inner, graph.constant(float(kernel.degree)))
    raise ValueError(f"kernel={model.kernel!r}: to_onnx does not have its formula (fit with kernel='precomputed')")


def _operator_suffices(model: Any) -> bool:
    """Whether an operator of ai.onnx.ml has this machine, and float32 has the digits for its kernel at the support vectors: a
    relative error e of the samples changes the kernel by about e |x| times its slope."""
    kernel = model.kernel_
    if kernel.name not in OPERATOR_KERNELS or not hasattr(model, "support_") or not len(model.support_):
        return False
    if hasattr(model, "classes_") and len(model.classes_) > 2 and not _by_pairs(model):
        return False
    if not all(isinstance(one, Sigmoid) for one in getattr(model, "calibration_", ())):
        return False  # a step function makes a jump of any rounding error
    vectors = _dense(model.support_vectors_).astype(np.float64)
    square = float(np.square(vectors).sum(axis=1).max())
    if kernel.name == "rbf":
        return SINGLE * float(np.sqrt(kernel.gamma * square)) <= MOST_LOST
    inner = kernel.gamma * square + abs(kernel.coef0)
    slope = kernel.degree * inner**kernel.degree if kernel.name == "poly" else inner
    return bool(SINGLE * slope <= MOST_LOST)


def _by_operator(graph: Graph, model: Any, X: str) -> str:
    kernel = model.kernel_
    parameters = [float(getattr(kernel, name, 0.0)) for name in ("gamma", "coef0", "degree")]
    vectors = _dense(model.support_vectors_)
    shared = {
        "kernel_type": OPERATOR_KERNELS[kernel.name],
        "kernel_params": parameters,
        "coefficients": _dense(model.dual_coef_).ravel().tolist(),
        "support_vectors": vectors.ravel().tolist(),
        "rho": model.intercept_.tolist(),
    }
    if not _by_pairs(model):
        return graph.add("SVMRegressor", X, domain="ai.onnx.ml", n_supports=len(vectors), **shared)
    return graph.add(
        "SVMClassifier",
        X,
        domain="ai.onnx.ml",
        n_outputs=2,  # the label, and the decision of each pair
        classlabels_ints=list(range(len(model.classes_))),
        vectors_per_class=model.n_support_.tolist(),
        **shared,
    )


def _by_pairs(model: Any) -> bool:
    return len(getattr(model, "classes_", ())) > 2 and getattr(model, "multi_class", "ovr") == "ovo"


# --- classes --------------------------------------------------------------------------------------------------------


def _pair_matrices(model: Any) -> tuple[Matrix, Matrix]:
    """For each pair (a row) the class that a positive decision votes for, and the one that a negative decision votes for."""
    n_classes = len(model.classes_)
    pairs = np.array(list(combinations(range(n_classes), 2)))
    unit = np.eye(n_classes)
    return unit[pairs[:, 0]], unit[pairs[:, 1]]


def _votes(graph: Graph, model: Any, positive: str) -> str:
    """The votes for each class, given which decisions are positive."""
    first, second = _pair_matrices(model)
    wins = graph.add("Cast", positive, to=graph.type_of(np.float64))
    return graph.add("Add", graph.product(wins, first - second), graph.constant(second.sum(axis=0)))


def _scores(graph: Graph, model: Any, decisions: str) -> str:
    """`multiclass.one_vs_rest_scores`: votes, with ties broken by the sums of decisions."""
    first, second = _pair_matrices(model)
    counts = _votes(graph, model, graph.add("Not", graph.add("Less", decisions, graph.constant(0.0))))
    sums = graph.product(decisions, first - second)
    below = graph.add("Mul", graph.add("Add", graph.add("Abs", sums), graph.constant(1.0)), graph.constant(3.0))
    return graph.add("Add", counts, graph.add("Div", sums, below))


def _choice(graph: Graph, model: Any, decisions: str) -> str:
    """The number of the predicted class."""
    if len(model.classes_) == 2:
        positive = graph.add("Cast", graph.add("Greater", decisions, graph.constant(0.0)), to=graph.type_of(np.int64))
        return graph.add("Squeeze", positive, graph.constant(np.array([1])))
    scores = decisions
    if _by_pairs(model):
        votes = _votes(graph, model, graph.add("Greater", decisions, graph.constant(0.0)))
        scores = _scores(graph, model, decisions) if model.break_ties else votes
    return graph.add("ArgMax", scores, axis=1, keepdims=0)


def _decision_function(graph: Graph, model: Any, decisions: str) -> str:
    return _scores(graph, model, decisions) if _by_pairs(model) and model.decision_function_shape == "ovr" else decisions


# --- probabilities --------------------------------------------------------------------------------------------------


def _probabilities(graph: Graph, model: Any, decisions: str) -> str:
    each = _machine_probabilities(graph, model.calibration_, decisions)
    n_classes = len(model.classes_)
    if n_classes == 2:
        return graph.add("Concat", graph.add("Sub", graph.constant(1.0), each), each, axis=1)
    return _couple(graph, each, n_classes) if _by_pairs(model) else _normalise(graph, each, n_classes)


def _machine_probabilities(graph: Graph, maps: tuple[Map, ...], decisions: str) -> str:
    """The probability of the positive class of each machine."""
    columns = []
    for k, one in enumerate(maps):
        column = graph.add("Gather", decisions, graph.constant(np.array([k])), axis=1)
        if isinstance(one, Sigmoid):
            inner = graph.add("Mul", column, graph.constant(-one.slope))
            columns.append(graph.add("Sigmoid", graph.add("Sub", inner, graph.constant(one.offset))))
        else:
            columns.append(_interpolate(graph, column, one.thresholds, one.probabilities))
    return graph.add("Concat", *columns, axis=1)


def _interpolate(graph: Graph, column: str, thresholds: Matrix, values: Matrix) -> str:
    """Linear interpolation of a column between thresholds, level outside."""
    if len(thresholds) == 1:
        thresholds, values = np.array([0.0, 1.0]), np.repeat(values, 2)
    within = graph.add("Max", graph.add("Min", column, graph.constant(thresholds[-1])), graph.constant(thresholds[0]))
    passed = graph.add("Not", graph.add("Less", within, graph.constant(thresholds[1:-1][None])))
    below = graph.add("ReduceSum", graph.add("Cast", passed, to=graph.type_of(np.int64)), graph.constant(np.array([1])))

    def at(array: Matrix) -> str:
        return graph.add("Gather", graph.constant(array), below, axis=0)

    part = graph.add("Div", graph.add("Sub", within, at(thresholds[:-1])), at(np.diff(thresholds)))
    return graph.add("Add", at(values[:-1]), graph.add("Mul", part, at(np.diff(values))))


def _couple(graph: Graph, pairs: str, n_classes: int) -> str:
    """Class probabilities from those of the pairs, as `calibration.couple_pairs` has them.

    Its system is Q p = -z 1, sum(p) = 1, so p is the solution of (Q + 1 1') x = 1 divided by its sum. This matrix is positive
    definite, so Gauss-Jordan elimination needs no pivots; its steps are unrolled.
    """
    least, zero = graph.constant(LEAST_PROBABILITY), graph.constant(0.0)
    clipped = graph.add("Max", graph.add("Min", pairs, graph.constant(1.0 - LEAST_PROBABILITY)), least)
    n_pairs = n_classes * (n_classes - 1) // 2
    place = np.full((n_classes, n_classes), 2 * n_pairs)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        place[i, j], place[j, i] = pair, n_pairs + pair
    none = graph.add("Mul", graph.add("Gather", clipped, graph.constant(np.array([0])), axis=1), zero)
    every = graph.add("Concat", clipped, graph.add("Sub", graph.constant(1.0), clipped), none, axis=1)
    r = graph.add("Gather", every, graph.constant(place), axis=1)
    squares = graph.add("ReduceSum", graph.add("Mul", r, r), graph.constant(np.array([1])), keepdims=1)
    diagonal = graph.add("Mul", squares, graph.constant(np.eye(n_classes)))
    Q = graph.add("Sub", diagonal, graph.add("Mul", r, graph.add("Transpose", r, perm=[0, 2, 1])))
    one = graph.constant(1.0)
    right = graph.add("Add", graph.add("Mul", graph.add("Gather", r, graph.constant(np.array([0])), axis=2), zero), one)
    system = graph.add("Concat", graph.add("Add", Q, one), right, axis=2)
    for k in range(n_classes):
        at = graph.constant(np.array([k]))
        row = graph.add("Gather", system, at, axis=1)
        scaled = graph.add("Div", row, graph.add("Gather", row, at, axis=2))
        column = graph.add("Sub", graph.add("Gather", system, at, axis=2), graph.constant(np.eye(n_classes)[:, [k]]))
        system = graph.add("Sub", system, graph.add("Mul", column, scaled))
    last, axis = graph.constant(np.array([n_classes])), graph.constant(np.array([2]))
    solution = graph.add("Squeeze", graph.add("Gather", system, last, axis=2), axis)
    return _normalise(graph, graph.add("Max", solution, zero), n_classes)


def _normalise(graph: Graph, each: str, n_classes: int) -> str:
    """Probabilities divided by their sum, or all equal if the sum is zero."""
    total = graph.add("ReduceSum", each, graph.constant(np.array([1])), keepdims=1)
    some = graph.add("Greater", total, graph.constant(0.0))
    shares = graph.add("Div", each, graph.add("Where", some, total, graph.constant(1.0)))
    return graph.add("Where", some, shares, graph.constant(1.0 / n_classes))


# --- the graph ------------------------------------------------------------------------------------------------------


class Graph:
    """Adds nodes and constants to a container of skl2onnx; each has a name, which is returned."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope = scope
        self._container = container

    def add(
        self, kind: str, *inputs: str, domain: str = "", output: str | None = None, n_outputs: int = 1, **attributes: Any
    ) -> str:
        """Add a node and return the name of its last output."""
        names: list[str] = [self._scope.get_unique_variable_name(kind.lower()) for _ in range(n_outputs)]
        if output is not None:
            names = [output]
        self._container.add_node(
            kind,
            list(inputs),
            names,
            name=self._scope.get_unique_operator_name(kind),
            op_domain=domain,
            op_version=1 if domain else OPSET,
            **attributes,
        )
        return names[-1]

    def constant(self, value: Any) -> str:
        """A constant: an array, or a number, which is float64 or int64."""
        from onnx import numpy_helper

        array = np.asarray(value)
        name: str = self._scope.get_unique_variable_name("constant")
        texts = array.dtype.kind == "U"
        content = [text.encode() for text in array.ravel().tolist()] if texts else numpy_helper.from_array(array)
        self._container.add_initializer(name, self.type_of(array.dtype), list(array.shape), content)
        return name

    def product(self, left: str, right: Matrix) -> str:
        """A matrix product with a constant."""
        return self.add("MatMul", left, self.constant(right.astype(np.float64)))

    def wide(self, value: str) -> str:
        return self.add("Cast", value, to=self.type_of(np.float64))

    def distances(self, X: str, samples: Matrix, kind: str) -> str:
        """|x - z|_1 (manhattan), |x - z|^2 (squared) or |x - z| (euclidean) for each query and sample. A scan over the queries
        needs no more memory than the samples, and differences lose no digits."""
        from onnx import TensorProto, helper

        double = TensorProto.DOUBLE
        power = helper.make_node("Abs", ["d"], ["e"]) if kind == "manhattan" else helper.make_node("Mul", ["d", "d"], ["e"])
        nodes = [helper.make_node("Sub", ["z", "x"], ["d"]), power]
        nodes.append(helper.make_node("ReduceSum", ["e", "axes"], ["s"], keepdims=0))
        nodes.append(helper.make_node("Sqrt" if kind == "euclidean" else "Identity", ["s"], ["distances"]))
        nodes.append(helper.make_node("Identity", ["z"], ["same"]))
        shape = list(samples.shape)
        body = helper.make_graph(
            nodes,
            "distances",
            [helper.make_tensor_value_info("z", double, shape), helper.make_tensor_value_info("x", double, shape[1:])],
            [helper.make_tensor_value_info("same", double, shape), helper.make_tensor_value_info("distances", double, shape[:1])],
            [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
        )
        return self.add("Scan", self.constant(samples), X, n_outputs=2, body=body, num_scan_inputs=1)

    @staticmethod
    def type_of(dtype: DTypeLike) -> int:
        """ONNX's number of a type."""
        from onnx import TensorProto, helper

        kind = np.dtype(dtype)
        return int(TensorProto.STRING if kind.kind == "U" else helper.np_dtype_to_tensor_dtype(kind))


def _dense(values: Any) -> NDArray[Any]:
    return np.asarray(values.toarray() if sp.issparse(values) else values)
