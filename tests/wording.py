"""The wording of errors about parameters, which is scikit-learn's."""

from __future__ import annotations

import re


def of_parameter(message: str, owner: str) -> str:
    """The pattern of the error of an estimator for what is said of a parameter as "name=value: must ...". The rule may go on."""
    found = re.fullmatch(r"(\w+)=(.*?): (must .*)", message)
    if found is None or message.startswith("solver="):  # other errors; a solver refuses its name itself
        return "^" + re.escape(message)
    name, value, rule = found.groups()
    return rf"^The '{name}' parameter of {owner} {re.escape(rule)}.*\. Got {re.escape(value)} instead\.$"
