"""SVC(approximation="nystroem") against scikit-learn's Nystroem and LinearSVC: accuracy and seconds, mean of several seeds.

    python -m benchmarks.nystroem FOLDER --rows 581012 --components 1000

FOLDER has `load.py` with `load("covtype")`, as for the other benchmarks. The features are standardised, the loss is the squared
hinge. Peers run by turns, in this process.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from maxmargin import SVC

CONTESTANTS = ("maxmargin", "scikit-learn")


def load_covtype(folder: Path, n_rows: int) -> tuple[np.ndarray, ...]:
    """Training and test rows, standardised, in float32; at most `n_rows` of both together."""
    spec = importlib.util.spec_from_file_location("load", folder / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    X, y, X_test, y_test = module.load("covtype")
    share = min(1.0, n_rows / (len(X) + len(X_test)))
    n, n_test = int(share * len(X)), int(share * len(X_test))
    scaler = StandardScaler().fit(X[:n])
    return tuple(
        np.asarray(part) for part in (scaler.transform(X[:n]), y[:n], scaler.transform(X_test[:n_test]), y_test[:n_test])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=581_012)
    parser.add_argument("--components", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--gap-tol", type=float, default=1e-5)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=1.0 / 54)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # LinearSVC says that it has not converged
    X, y, X_test, y_test = load_covtype(chosen.folder, chosen.rows)
    print(f"{len(X):,} rows for training, {len(X_test):,} for the test, {chosen.components} landmarks")
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen.contestants}
    for seed in chosen.seeds:
        features = {"gamma": chosen.gamma, "n_components": chosen.components, "random_state": seed}
        models = {
            "maxmargin": SVC(C=chosen.C, loss="squared_hinge", approximation="nystroem", gap_tol=chosen.gap_tol, **features),
            "scikit-learn": make_pipeline(Nystroem(**features), LinearSVC(C=chosen.C, random_state=seed)),
        }
        for name in chosen.contestants:
            model = models[name]
            started = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - started
            results[name].append((seconds, model.score(X_test, y_test)))
            gap = f"   relative gap {model.certificate_.relative_gap:.1e}" if name == "maxmargin" else ""
            print(f"seed {seed}  {name:13} {seconds:7.1f} s   accuracy {results[name][-1][1]:.4f}{gap}", flush=True)
    for name, runs in results.items():
        seconds, accuracy = np.mean(runs, axis=0)
        print(f"mean    {name:13} {seconds:7.1f} s   accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
