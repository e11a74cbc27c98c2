"""The certificate of a model that somebody else fitted.

    read        a model of any library, or a model file, as a `Fitted`: its coefficients and parameters in one convention
      attributes   scikit-learn and the libraries with its attributes: scikit-learn-intelex, cuML, ThunderSVM, maxmargin
      libsvm       LIBSVM's Python module and its model files
    matching    finds support vectors that are stored without sample numbers among the training samples
    posing      states a `Fitted` and its training set as dual problems, with the dual points that the library reached
    examine     computes their certificates, in float64 and from scratch, with the model's own intercept and with the best one
    verdict     the `Audit`: the numbers and a sentence about them

Nothing here trusts a model: an audit uses its dual coefficients and intercept, and its parameters to know which problem it was
meant to solve. May not enter: solvers, and other people's libraries (their models are read, never imported).
"""

from maxmargin.audits.examine import audit
from maxmargin.audits.verdict import Audit

__all__ = ["Audit", "audit"]


def __dir__() -> list[str]:
    return __all__
