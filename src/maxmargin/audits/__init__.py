"""The certificate of a model that somebody else fitted.

    read        a model of any library, or a model file, as a `Fitted`: what it says of itself, in one language
      attributes   scikit-learn and the libraries with its attributes: scikit-learn-intelex, cuML, ThunderSVM, maxmargin
      libsvm       LIBSVM's Python module and its model files
      model_file   the lines of such a file
    matching    support vectors that come without their numbers, found among the training samples
    posing      a `Fitted` and its training set as dual problems and the points where the library left them
    examine     their certificates, in float64 and from scratch, with the model's own intercept and with the best
    verdict     the `Audit`: the numbers and a sentence

Nothing here trusts a model: of a fit only the dual coefficients and the intercept are taken, and its parameters to know which
problem it was meant to solve. May not enter: solvers, and other people's libraries (their models are read, never imported).
"""

from maxmargin.audits.examine import audit
from maxmargin.audits.model_file import is_model_file
from maxmargin.audits.verdict import Audit

__all__ = ["Audit", "audit", "is_model_file"]
