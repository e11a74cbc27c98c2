"""The backend of NVIDIA's cards: samples, duals and gradient in the memory of the card, working sets solved there.

    backend     which data and kernels it takes, and what is missing where it cannot run
    several     the backend of several devices
    packing     samples on a device
    rows        samples that are on a device already
    streaming   samples that are too many for the memory of a device
    engine      the contract: kernel sums, kernel values, and a solver of tiles
    solver      tiles solved in rounds, by steps that an engine makes
    card        the engine of a card: our CUDA C++ (sources/*.cu), compiled at run time (compiler) and launched (program)
    plain       the same engine in torch's own words, for machines without a card
    gram, tile, point   the kernel matrix, that of a working set, and the point that a solver moves

Torch holds the arrays. All files but `compiler` need it, so `make_backend` imports `backend` when it is asked for, and this file
imports nothing.
"""
