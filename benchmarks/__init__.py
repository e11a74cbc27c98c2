"""Side-by-side measurements of maxmargin and its peers: ``python -m benchmarks --help``.

cases.py        which problems, in which groups: sets with their scaling, container and settings
sets.py         the data of a case
contestants.py  which libraries, and how each gets its data
worker.py       one measurement in a fresh process
limit.py        the least time that checking a solution takes, by BLAS
truth.py        the true float64 duality gap of any model
turns.py        measurements in fresh processes, contestants by turns, for the commands that are not races of fits
race.py         all contestants on one problem, interleaved and repeated
verdicts.py     the promised bars, and whether a run met them
tables.py       results as text and as Markdown
__main__.py     the command

The groups: C-SVC on sets with two classes and with many, small ones, with a large C, in little memory; regression, nu and
one-class machines. Other benchmarks have commands of their own: growth.py (seconds against the number of rows), threads.py
(seconds against the number of threads), versions.py (two versions of maxmargin), grid_search.py, calibration.py, linear.py,
kernel_regression.py and time_limits.py, each run as ``python -m benchmarks.NAME``.

The rules of the race: the same kernel, C, gamma and tol for all; the same cores; before the clock starts, a warm-up, and the data
converted to the dtype a library prefers and the layout it is faster with; up to three fits in a process, because the first one is
measured by the pages that the system has to clear for it; the best (or median) of several processes; no number taken from a
library's own claims. Nothing here is imported by the package.
"""
