"""From decisions to probabilities.

    leave_one_out   the decision of each training sample by a machine that never saw it, without a refit (the span rule)
    held_out        decisions about unseen samples by cross-validation, from refits that start at the solution
    maps            from a decision to the probability of the positive class: Platt's sigmoid, or isotonic regression
    coupling        from the probabilities of the machines to those of the classes

These modules work on vectors and blocks of a kernel matrix. May not enter: estimators, solvers, X.
"""

from maxmargin.calibration.coupling import LEAST_PROBABILITY, couple_pairs, normalise
from maxmargin.calibration.held_out import start_from, stratified_folds
from maxmargin.calibration.leave_one_out import (
    FeatureRows,
    leave_one_out_decisions,
    squared_spans,
    training_decisions,
    triangular_work,
)
from maxmargin.calibration.maps import MAPS, Isotonic, Map, Sigmoid

__all__ = [
    "LEAST_PROBABILITY",
    "MAPS",
    "FeatureRows",
    "Isotonic",
    "Map",
    "Sigmoid",
    "couple_pairs",
    "leave_one_out_decisions",
    "normalise",
    "squared_spans",
    "start_from",
    "stratified_folds",
    "training_decisions",
    "triangular_work",
]
