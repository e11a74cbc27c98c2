"""How OpenMP's threads wait for each other.

By default libgomp lets a thread that has nothing to do spin for a while. On a machine with other work for its cores, spinning
threads keep the thread they wait for from running: fits of a fraction of a second were measured five times slower. A sleeping
thread takes some microseconds to wake up. The choice is made when the library is loaded and cannot be changed later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "OMP_WAIT_POLICY"


@contextmanager
def asleep() -> Iterator[None]:
    """Make libraries that are loaded within this context let their threads sleep, unless the user has set OMP_WAIT_POLICY."""
    if VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = "PASSIVE"
    try:
        yield
    finally:
        del os.environ[VARIABLE]
