"""Random problems for the whole library, and an independent judge of its answers.

    generator     problem number i of seed s: an estimator, its parameters, data, targets and weights
    ├─ linear_generator   the same for linear machines, a stream of its own
    ├─ features   X, from well behaved to hostile
    ├─ targets    y and weights
    ├─ layouts    the same X as a C, Fortran or strided array, or as CSR in all its forms
    └─ callables  kernels that are Python functions
    oracle        primal value, dual value, gap and violations of a returned model, in 80-bit arithmetic
    ├─ exact_kernels  the kernel matrix, distances from differences
    └─ machines       the problems of the README, one class each, as a textbook states them
    linear_machines   the problems of linear machines, whose models keep no duals
    └─ reference      a solution of them by an interior-point method, in 80-bit arithmetic
    answers       whether decision_function and predict say what the oracle says
    judge         what counts as a finding
    examine       one problem from data to findings
    pool          worker processes that may hang or crash
    shrink        a failing problem made as small as possible, and reproduce: as lines of Python
    runner        many problems, a line for each finding, a table at the end
    files         damaged data and model files
    faults        forks, threads, signals, full disks, little memory

    python -m fuzz --problems 1000 --seed 0      make fuzz PROBLEMS=1000
    python -m fuzz --machines linear             LinearSVC, LinearSVR and LinearOneClassSVM
    python -m fuzz files                         make fuzz-files
    python -m fuzz faults                        make fuzz-faults

The rule of the room: nothing here calls a formula of the library. It reads public attributes of fitted models.
"""
