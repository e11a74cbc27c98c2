"""Support vector classification with the API of scikit-learn and a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from maxmargin.control import Progress
from maxmargin.estimators import validation
from maxmargin.estimators.classifier import KernelClassifier
from maxmargin.estimators.names import (
    AnyKernel,
    ApproximationName,
    BackendName,
    CacheSize,
    CalibrationName,
    ClassLoss,
    ClassWeight,
    DecisionShape,
    FastSolverName,
    Gamma,
    Probability,
    SolverName,
    Strategy,
)
from maxmargin.estimators.nystroem import Approximable
from maxmargin.estimators.parameters import store_parameters
from maxmargin.formulations import LinearProblem, linear_classification, make_loss
from maxmargin.multiclass import JOINT_STRATEGY, STRATEGIES
from maxmargin.samples import Samples
from maxmargin.solution import Status
from maxmargin.solvers import HARD_MARGIN, JOINT, SOLVERS, Choice, Situation, Solver, SolverOptions, choose_solver, make_options
from maxmargin.tasks import ClassificationTask, CostMachine, Fitted, JointTask, NuMachine, Task
from maxmargin.training import Outcome

Vector = NDArray[np.float64]

ROUNDING = 1e-12  # rounding error of a decision, relative to the sizes of the duals


class SVC(Approximable, KernelClassifier):
    r"""C-support vector classification, exact, with a duality-gap certificate.

    .. math:: \min_{w, b} \tfrac12 \lVert w \rVert^2 + \sum_i C_i \, \max(0, 1 - y_i (w \cdot \phi(x_i) + b))

    A drop-in for :class:`sklearn.svm.SVC`; parameters and attributes that are not described here mean the same as there.

    Parameters
    ----------
    C : float, default=1.0
        The price of slack. ``numpy.inf`` is the hard margin.
    kernel : str, Kernel or callable, default="rbf"
        ``linear``, ``poly``, ``rbf``, ``laplacian``, ``exponential``, ``matern32``, ``sigmoid``, ``precomputed``; an object of
        `maxmargin.kernels`, which has parameters of its own; or a callable ``k(A, B)`` that is asked for blocks of the kernel
        matrix.
    degree, gamma, coef0
        The parameters of a kernel that is given by name; ``gamma="scale"`` is ``1 / (n_features * X.var())``, weighted if the
        samples are.
    shrinking : bool, default=True
        Accepted for compatibility; the solver decides by itself.
    probability : False, "loo" or "cv", default=False
        Whether the model has ``predict_proba``, and on which decisions the probabilities are fitted: the decision about each
        sample by the machine without it ("loo", or True), by the span rule, without a refit; or the decisions of five machines
        that hold out a fifth of the samples each ("cv"), drawn at random with the seed ``random_state`` (None is a fixed seed
        too). Nothing else of the model changes. A sample with a weight is left out with all of its weight.
    tol : float, default=1e-3
        The largest violation of the optimality conditions that is accepted; ``numpy.inf`` leaves the decision to ``gap_tol``.
    cache_size : float or "auto", default="auto"
        A memory budget in MB for cached kernel rows; "auto" is half of the free memory.
    class_weight, verbose, max_iter, decision_function_shape, break_ties, random_state
        As in scikit-learn; ``max_iter`` counts pair steps over all machines, ``verbose=True`` shows a progress bar.
    loss : {"hinge", "squared_hinge", "huber_hinge"} or Loss, default="hinge"
        The loss of slack: the slack itself, its square, or the square up to a point and linear from there on. An object of
        `maxmargin.formulations.losses` has parameters of its own.
    sigma : float, default=None
        Another way to say gamma: ``1 / (2 sigma^2)`` for rbf, ``1 / sigma`` for the other kernels.
    fit_intercept : bool, default=True
        Without an intercept the equality constraint of the dual disappears.
    gap_tol : float or None, default=1e-3
        The largest relative duality gap of each machine that is accepted, in addition to ``tol``: with the default, a model with
        the status converged is within 0.1 % of the optimum. None accepts any gap, as LIBSVM does.
    max_seconds : float, default=None
        A time limit. The model reached by then is kept, with its certificate. The machines of several classes share the time;
        computing certificates is not included.
    callbacks : list of callables, default=None
        Each is called with a :class:`maxmargin.callbacks.Progress`; returning True stops the fit. With scikit-learn 1.9
        or newer, ``set_callbacks`` also accepts those of :mod:`sklearn.callback`.
    solver : str, default="auto"
        The algorithm; ``solver_`` says which one ran, and ``solver_reason_`` why. ``block-smo`` is the fast one. ``linear``
        stands for the solvers of :class:`LinearSVC`, which "auto" takes for a linear kernel and more than 1024 samples, unless
        ``max_iter`` limits the steps. Besides there are those of the textbooks: ``smo-simple``, ``smo-all-pairs``, ``smo-platt``,
        ``dual-ascent`` and ``qp`` (``pip install maxmargin[qp]``), for up to a few thousand samples, and for the linear kernel
        ``subgradient`` and ``lbfgs``, which solve the primal. They see the samples in the order of X. With ``dual-ascent`` the
        intercept is regularised like a weight, which is another machine, with the kernel K + 1. With ``C=inf``, ``subgradient``
        and ``lbfgs`` minimise the hinge loss alone: they end at a hyperplane that separates the classes, but not by the widest
        margin, and ``status_`` says so.
    solver_options : dict, default=None
        Options of the textbook solvers: ``max_passes``, ``counts``, ``threshold``, ``stops``, ``bias`` (smo-simple);
        ``epsilon``, ``order`` (dual-ascent); ``form`` (qp: "dual" or "primal"); ``learning_rate``, ``eta0``, ``batch_size``,
        ``epochs`` (subgradient); ``memory``, ``max_iterations`` (lbfgs); and for solvers that use random numbers ``seed``, which
        replaces ``random_state``.
    multi_class : {"ovo", "ovr", "crammer_singer"}, default="ovo"
        A machine for each pair of classes, one for each class against the rest, or one machine of all classes (Crammer and
        Singer 2001): min 1/2 sum_m |w_m|^2 + sum_i C_i max_m (1 - [m = y_i] + (w_m - w_{y_i}) . phi(x_i)). It has the hinge
        loss and no intercept: ``intercept_`` is zero, or -1 for a class whose samples all have zero weight and which is
        never predicted. ``decision_function`` gives the scores w_m . phi(x), and ``dual_coef_`` a row for each class. For two
        classes it gives the difference of the two scores, which is the decision of the binary machine with 2 C and
        ``fit_intercept=False``.
    backend : {"auto", "native", "reference", "cuda", "cuda:all"}, default="auto"
        The implementation that computes kernel values and solves tiles: compiled code (``native``), NumPy, or an NVIDIA card
        (``pip install maxmargin[cuda]``). "auto" is compiled code, and a card for arrays of torch or CuPy that are there;
        "cuda:all" spreads the machines of several classes, and the folds of a grid, over all cards that torch sees.
    warm_start : bool, default=False
        Start from the solution of the last fit if it had as many samples: for a path of C, or data that changed a little.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        The map from a decision to a probability: Platt's sigmoid, or isotonic regression, which needs thousands of samples.
    approximation : {"nystroem"} or None, default=None
        "nystroem": the machine is a sum over ``n_components`` landmarks, samples that are chosen at random (those that
        :class:`sklearn.kernel_approximation.Nystroem` chooses with the same ``random_state``), and is trained as a linear machine
        on as many features. The certificate is that of this problem, and `approximation_gap` bounds the distance from the exact
        optimum. Several classes need ``multi_class="ovr"``.
    n_components : int, default=1000
        The number of landmarks.
    polish : bool, default=False
        Whether the exact solver goes on from the duals of the approximate machine, to the exact one.

    Attributes
    ----------
    certificate_ : Certificate
        Primal value, dual value, duality gap and KKT violation, recomputed in float64; ``print`` it. Its ``complete`` says
        whether the gradient was recomputed at all samples.
    status_ : Status
        How the fit ended, decided by the certificate; ``print`` gives a sentence.
    margin_ : float or array
        The geometric margin 1 / ||w|| in feature space, one for each machine.
    trace_ : Trace
        The course of the fit; with several machines, of the last one.
    fit_seconds_ : float
        The time the fit took.
    cluster_ : maxmargin.cluster.Traffic
        After a fit to a Dask collection: the rounds of questions to the workers, and the bytes sent and received and the seconds
        by the name of the question, which is also that of the tasks on Dask's dashboard.
    loo_error_ : float
        With ``probability="loo"``: the share of training samples (by weight) that the machine without the sample would
        classify wrongly, by the span rule: an estimate of the test error that needs no refit. It is too high if more than 4096
        samples are free, as with the squared hinge on large data.
    probA_, probB_ : array
        With the sigmoid: P = 1 / (1 + exp(probA_ f + probB_)) of the class for which a machine's decision f is positive.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, classes_, class_weight_
        As in scikit-learn; so are ``n_iter_``, ``fit_status_`` and ``shape_fit_``.

    See Also
    --------
    SVCCV : C and gamma chosen by cross-validation.
    NuSVC : A share of margin errors in place of C.
    audit : The certificate of a model of another library.
    maxmargin.plots.BoundaryDisplay : A picture of the machine.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10.0).fit(X, y)
    >>> round(model.score(X, y), 3)
    0.987
    >>> print(model.status_)  # doctest: +ELLIPSIS
    Converged: no sample violates the optimality conditions by more than tol, ...
    >>> model.certificate_.holds(1e-3)
    True
    """

    _solvers: ClassVar[Mapping[str, Solver]] = SOLVERS

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Probability = False,
        tol: float = 1e-3,
        cache_size: CacheSize = "auto",
        class_weight: ClassWeight = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: DecisionShape = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        loss: ClassLoss = "hinge",
        sigma: float | None = None,
        fit_intercept: bool = True,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: SolverName = "auto",
        solver_options: Mapping[str, Any] | None = None,
        multi_class: Strategy = "ovo",
        backend: BackendName = "auto",
        warm_start: bool = False,
        calibration: CalibrationName = "sigmoid",
        approximation: ApproximationName = None,
        n_components: int = 1000,
        polish: bool = False,
    ) -> None:
        store_parameters(locals())

    def _check_parameters(self) -> None:
        validation.positive("C", self.C, infinite_ok="hard margin", hint=" (use C=numpy.inf for a hard margin)")
        super()._check_parameters()
        validation.loss(self.loss)
        validation.choice("multi_class", self.multi_class, STRATEGIES)
        if self.solver_options:
            kind = SolverOptions if self.solver == "auto" else SOLVERS[self.solver].options
            make_options(self.solver, kind, self.solver_options)
        validation.choice("decision_function_shape", self.decision_function_shape, ("ovo", "ovr"))
        self._check_probability()
        if self.multi_class == JOINT_STRATEGY:
            self._check_joint_machine()
        self._check_approximation(make_loss(self.loss).name, ("hinge", "squared_hinge"))
        if self.approximation is not None and self.multi_class == JOINT_STRATEGY:
            raise ValueError(f"multi_class={self.multi_class!r}: with approximation='nystroem' it must be 'ovo' or 'ovr'")
        if self.approximation is not None and self.probability:
            raise ValueError(
                f"probability={self.probability!r}: a machine with approximation='nystroem' has no probabilities of its own "
                "(use sklearn.calibration.CalibratedClassifierCV)"
            )

    def _linear_problems(self, targets: NDArray[np.intp], weights: Vector) -> list[LinearProblem]:
        n_classes = len(self.classes_)
        if n_classes > 2 and self.multi_class != "ovr":
            raise ValueError(
                f"multi_class={self.multi_class!r} with {n_classes} classes: the machines of approximation='nystroem' share "
                "their landmarks, so it must be 'ovr'"
            )
        costs = float(self.C) * weights * self.class_weight_[targets]
        positives, bias = [1] if n_classes == 2 else range(n_classes), "free" if self.fit_intercept else "none"
        sides = (np.where(targets == positive, 1.0, -1.0) for positive in positives)
        return [linear_classification(side, costs, make_loss(self.loss).name, bias, 1.0) for side in sides]

    def _exact_start(self, beta: Vector, targets: NDArray[np.intp]) -> Vector:
        return beta[np.argsort(targets, kind="stable")]  # the exact problem has the samples sorted by class

    def _check_for_cluster(self) -> None:
        super()._check_for_cluster()
        if math.isinf(self.C):
            raise ValueError(f"C={self.C!r} with a Dask collection: must be finite (a hard margin is found in one process)")
        if self.multi_class == JOINT_STRATEGY:
            raise ValueError(f"multi_class={self.multi_class!r} with a Dask collection: must be one of ovo, ovr")

    def _check_joint_machine(self) -> None:
        machine, others = f"multi_class={self.multi_class!r}", "use multi_class='ovo' or 'ovr'"
        if math.isinf(self.C):
            raise ValueError(f"C={self.C!r}: with {machine} it must be finite ({others} for a hard margin)")
        if make_loss(self.loss).name != "hinge":
            raise ValueError(f"loss={self.loss!r}: {machine} has the hinge loss ({others} for another)")
        if self.solver != "auto":
            raise ValueError(f"solver={self.solver!r}: {machine} has a solver of its own (use solver='auto')")
        if self.probability:
            raise ValueError(
                f"probability={self.probability!r}: {machine} has no probabilities of its own ({others}, or "
                "sklearn.calibration.CalibratedClassifierCV)"
            )

    def _formulate(self, labels: NDArray[np.intp], weights: Vector) -> Task:
        by_class, shares = self._sorted(labels, weights)
        if self.multi_class == JOINT_STRATEGY:
            return JointTask(by_class, shares, float(self.C))
        machine = CostMachine(float(self.C), make_loss(self.loss), self.fit_intercept and not self._augments_kernel())
        return ClassificationTask(by_class, shares, machine, self.multi_class)

    def _choose_solver(self, task: Task) -> tuple[Choice, SolverOptions | None]:
        if isinstance(task, JointTask):
            return JOINT, None
        n_features = getattr(self, "n_features_in_", 1)  # samples that are not rows of numbers have no features
        situation = Situation(
            kernel=self.kernel_,
            loss=HARD_MARGIN if task.problems[0].hard else make_loss(self.loss).name,
            intercept=self.fit_intercept,
            n_samples=max(map(len, task.problems)),
            n_features=n_features,
            limits_steps=self.max_iter >= 0,
            compiled=self.backend != "reference",
        )
        choice = choose_solver(self.solver, situation)
        if not SOLVERS[choice.name].takes_options:  # `_check_parameters` has refused any that were given
            return choice, None
        kind = SOLVERS[choice.name].options
        seed = None
        if "seed" in {option.name for option in fields(kind)}:
            random = check_random_state(0 if self.random_state is None else self.random_state)
            seed = int(random.randint(2**31))
        return choice, make_options(choice.name, kind, self.solver_options, seed)

    def _check_probability(self) -> None:
        super()._check_probability()
        if self.probability and self._augments_kernel():
            raise ValueError(
                f"probability={self.probability!r} with solver={self.solver!r}: its intercept is a weight, which leaving samples "
                "out does not know about; use another solver, or fit_intercept=False"
            )

    def _augments_kernel(self) -> bool:
        return self.fit_intercept and self.solver != "auto" and SOLVERS[self.solver].augments_kernel


class NuSVC(KernelClassifier):
    r"""Nu-support vector classification, exact, with a duality-gap certificate.

    .. math:: \min_{w, b, \rho} \tfrac12 \lVert w \rVert^2 - \nu \Big(\sum_i s_i\Big) \rho
              + \sum_i s_i \, \max(0, \rho - y_i (w \cdot \phi(x_i) + b))

    with s_i the weight of sample i times that of its class. At most a share nu of the (weighted) samples lies inside the
    margin, at least a share nu are support vectors. The machine that is kept is the solution divided by rho, as in
    scikit-learn: the one that :class:`SVC` gives with C = 1 / rho. The certificate is that of the problem above.

    A drop-in for :class:`sklearn.svm.NuSVC`, with ``class_weight`` honoured.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        The largest share of margin errors, and the smallest share of support vectors. A value that is too large for the smaller
        class is an error, which names the largest feasible value.
    kernel, degree, gamma, coef0, shrinking, probability, tol, cache_size, class_weight, verbose, max_iter
        As in :class:`SVC`.
    decision_function_shape, break_ties, random_state, sigma, gap_tol, max_seconds, callbacks
        As in :class:`SVC`.
    solver, backend, warm_start, calibration
        As in :class:`SVC`; the solver is ``block-smo``.

    Attributes
    ----------
    rho_ : float or array
        The margin that was found, one for each machine; C = 1 / rho in :class:`SVC` gives the same machine.
    certificate_, status_, trace_, fit_seconds_, support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_
        As in :class:`SVC`.

    See Also
    --------
    SVC : The price of slack in place of nu.
    sklearn.svm.NuSVC : The machine of scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import NuSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = NuSVC(nu=0.2).fit(scale(X), y)
    >>> len(model.support_) / len(y) >= 0.2
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Probability = False,
        tol: float = 1e-3,
        cache_size: CacheSize = "auto",
        class_weight: ClassWeight = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: DecisionShape = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        sigma: float | None = None,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: FastSolverName = "auto",
        backend: BackendName = "auto",
        warm_start: bool = False,
        calibration: CalibrationName = "sigmoid",
    ) -> None:
        store_parameters(locals())

    def _check_parameters(self) -> None:
        validation.share("nu", self.nu)
        super()._check_parameters()
        validation.choice("decision_function_shape", self.decision_function_shape, ("ovo", "ovr"))
        self._check_probability()

    def _formulate(self, labels: NDArray[np.intp], weights: Vector) -> Task:
        by_class, shares = self._sorted(labels, weights)
        return ClassificationTask(by_class, shares, NuMachine(float(self.nu)), self.multi_class)

    def _keep(self, samples: Samples, fitted: Fitted, outcomes: Sequence[Outcome]) -> None:
        super()._keep(samples, fitted, outcomes)
        stalled = self.status_ is Status.STALLED  # perhaps because the optimum is zero, and rounding all that is left
        proofs = [one.proof for one in outcomes]
        least = [max(proof.kkt_violation, ROUNDING * proof.size if stalled else 0.0) for proof in proofs]
        if (stalled or self.status_.converged) and (np.atleast_1d(self.rho_) <= least).any():
            self.status_, self.fit_status_ = Status.NO_MARGIN, 1
