"""The cases: sets with their scaling, container and settings, in the groups in which results are compared.

Nothing numerical is imported here: a fresh process reads its case before it chooses its cores.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

STORED_AS_CSR = {"a9a", "mushrooms"}
MANY_ZEROS = {*STORED_AS_CSR, "mnist", "mnist-parity", "covtype"}  # peers run on both containers, and the faster counts


@dataclass(frozen=True)
class Case:
    """One problem to solve: a set, a machine with an RBF kernel, and its settings. ``None`` means the set's own C, gamma, rows
    and container, a machine without nu, or a cache without a limit.

    ``scaling`` is "stored" (as the set is), "standardised" (mean 0, variance 1) or "unit" (each column from 0 to 1).
    ``container``, "dense" or "csr", is what maxmargin gets; each peer gets the one that it is faster with.
    """

    group: str
    set: str
    C: float | None = None
    cache_megabytes: int | None = None
    machine: str = "SVC"
    nu: float | None = None
    gamma: float | None = None
    rows: int | None = None  # the first ones of the training set
    scaling: str = "stored"
    container: str | None = None
    order: int | None = None  # the seed of a random order of the rows; None: as they are stored

    @property
    def name(self) -> str:
        words: list[Any] = [self.set, self.rows, None if self.scaling == "stored" else self.scaling, self.container]
        settings = [
            ("order {}", self.order),
            ("C={:g}", self.C),
            ("gamma={:g}", self.gamma),
            ("nu={:g}", self.nu),
            ("cache={}MB", self.cache_megabytes),
        ]
        words += [form.format(value) for form, value in settings if value is not None]
        return " ".join(str(word) for word in words if word is not None)

    @property
    def layout(self) -> str:
        """The container that maxmargin gets."""
        return self.container or ("csr" if self.set in STORED_AS_CSR and self.scaling == "stored" else "dense")

    @property
    def has_many_zeros(self) -> bool:
        return self.set in MANY_ZEROS and self.scaling != "standardised"


ENTRANTS = {  # the contestants of some groups; the other groups have all
    "memory": ("maxmargin",),
    "mnist": ("maxmargin", "intelex-float32"),
    "one-class": ("maxmargin", "scikit-learn", "libsvm"),  # scikit-learn-intelex has no such machine
}

TABLES = [
    Case("tables", "a9a", C=1.0, gamma=0.02, scaling="standardised"),
    Case("tables", "mnist-parity", rows=20_000),
    Case("tables", "covtype", rows=20_000),
    Case("tables", "covtype", rows=40_000),
    Case("tables", "a9a", container="dense"),
    Case("tables", "a9a", container="csr"),
]
SMALL = [Case("small", name) for name in ("iris", "wine", "breast_cancer", "digits")]
MEMORY_BUDGET = 200  # MB
MARGIN_ERRORS, OUTLIERS = 0.4, 0.1  # the nu of the groups "nu" and "one-class"


def family(regression: tuple[str, ...], other: tuple[str, ...]) -> list[Case]:
    """The machines other than C-SVC: regression on some sets, nu-classification and one-class machines on others."""
    return [
        *(Case("regression", name, machine="SVR") for name in regression),
        *(Case("nu", name, machine="NuSVC", nu=MARGIN_ERRORS) for name in other),
        *(Case("one-class", name, machine="OneClassSVM", nu=OUTLIERS) for name in other),
    ]


FULL = [
    *(Case("binary", name) for name in ("spambase", "magic", "ijcnn1", "electricity", "a9a")),
    *TABLES,
    *(Case("multiclass", name) for name in ("usps", "letter", "pendigits")),
    *SMALL,
    Case("large-C", "spambase", C=1e3),
    Case("large-C", "german", C=1e3),
    Case("large-C", "svmguide1", C=1e4),
    Case("large-C", "magic", C=1e3),
    Case("memory", "a9a"),
    Case("memory", "a9a", cache_megabytes=MEMORY_BUDGET),
    Case("mnist", "mnist"),
    *family(("cadata", "cpusmall", "abalone"), ("magic", "a9a")),
]
BUNDLED = [
    *(Case("binary", name) for name in ("breast_cancer", "gaussians", "moons")),
    Case("tables", "census"),
    *(Case("multiclass", name) for name in ("digits", "blobs")),
    *SMALL,
    Case("large-C", "breast_cancer", C=1e3),
    Case("large-C", "moons", C=1e3),
    *family(("diabetes", "friedman"), ("breast_cancer", "gaussians")),
]


def cases(data: Path | None) -> list[Case]:
    return BUNDLED if data is None else FULL


def chosen(data: Path | None, groups: list[str] | None, sets: list[str] | None) -> list[Case]:
    """The cases of these groups and sets, each by its set or by its whole name; None: all."""
    return [
        case
        for case in cases(data)
        if (not groups or case.group in groups) and (not sets or case.set in sets or case.name in sets)
    ]
