"""Training on a file that need not fit into memory: speed beside the disk's own, passes, and anonymous memory.

    python -m benchmarks.out_of_core FOLDER --gigabytes 8 --columns 200 --loss hinge

Makes a file of float32 rows in FOLDER (and deletes it at the end), drops it from the page cache where the system allows that,
reads it once plainly for the speed of the disk, and then trains on it as a memory map that is read in chunks.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path

import numpy as np

from maxmargin import LinearSVC

ROWS_AT_ONCE = 100_000
BYTES_AT_ONCE = 64_000_000


def make_rows(path: Path, n_bytes: int, n_columns: int) -> np.ndarray:
    """Write standard normal rows to `path`; return their labels, of which one in ten or so is on the wrong side of a plane."""
    random = np.random.default_rng(0)
    plane = random.standard_normal(n_columns, dtype=np.float32)
    n_rows, labels = n_bytes // (4 * n_columns), []
    with open(path, "wb") as file:
        for start in range(0, n_rows, ROWS_AT_ONCE):
            X = random.standard_normal((min(ROWS_AT_ONCE, n_rows - start), n_columns), dtype=np.float32)
            noise = 0.3 * np.linalg.norm(plane) * random.standard_normal(len(X), dtype=np.float32)
            labels.append((X @ plane + noise > 0).astype(np.int8))
            X.tofile(file)
        file.flush()
        os.fsync(file.fileno())
    return np.concatenate(labels)


def drop_from_cache(path: Path) -> bool:
    """Ask the system to forget the pages of a file."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def read_plainly(path: Path) -> float:
    """The seconds of one pass over the bytes."""
    started = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.read(BYTES_AT_ONCE):
            pass
    return time.perf_counter() - started


class Watch(threading.Thread):
    """The largest anonymous memory of this process, in bytes, while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest, self._over = 0, threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.05):
            with open("/proc/self/status") as lines:
                sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")]
            self.largest = max(self.largest, *sizes)

    def stop(self) -> int:
        self._over.set()
        self.join()
        return self.largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--loss", choices=("hinge", "squared_hinge"), default="hinge")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--gap-tol", type=float, default=1e-3)
    chosen = parser.parse_args()
    path, state = chosen.folder / "rows.f32", chosen.folder / "rows.checkpoint"
    try:
        y = make_rows(path, int(chosen.gigabytes * 1e9), chosen.columns)
        size = path.stat().st_size
        dropped = drop_from_cache(path)
        disk = read_plainly(path)
        drop_from_cache(path)
        X = np.memmap(path, dtype=np.float32, mode="r", shape=(len(y), chosen.columns))
        watch = Watch()
        watch.start()
        started = time.perf_counter()
        # the checkpoint asks for chunks also where the file would fit into memory
        model = LinearSVC(loss=chosen.loss, C=chosen.C, gap_tol=chosen.gap_tol, verbose=1).fit(X, y, checkpoint=state)
        seconds, largest = time.perf_counter() - started, watch.stop()
    finally:
        path.unlink(missing_ok=True)
        state.unlink(missing_ok=True)
    cache = "dropped" if dropped else "kept"
    print(f"file             {size / 1e9:.2f} GB, {len(y):,} x {chosen.columns} float32, page cache {cache}")
    print(f"disk             {size / disk / 1e9:.2f} GB/s, one plain read")
    print(f"fit              {seconds:.1f} s, {model.n_passes_:.0f} passes, {size * model.n_passes_ / seconds / 1e9:.2f} GB/s")
    print(f"anonymous memory {largest / 1e9:.2f} GB at most")
    print(f"relative gap     {model.certificate_.relative_gap:.1e}, certified; {model.solver_reason_}")


if __name__ == "__main__":
    main()
