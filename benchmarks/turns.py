"""Contestants by turns, each in a fresh process on the same cores: shared by the commands that are not races of fits.

Such a command is a module with `measure(set, contestant, options)`, whose results are numbers by name, ``seconds`` among them. It
calls itself with ``--one SET CONTESTANT`` for each measurement. Nothing numerical is imported here: a fresh process chooses its
cores first.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

Result = dict[str, Any]


def in_fresh_process(module: str, *arguments: str, python: str = sys.executable) -> Result:
    """Run the module with these arguments in a fresh process; return the JSON that it prints last."""
    command = [python, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def parser(module: str, text: str | None, contestants: Sequence[str]) -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(prog=f"python -m {module}", description=text, formatter_class=formatter)
    options.add_argument("--data", type=Path, help="folder with load.py and its sets; without it, scikit-learn's own sets")
    options.add_argument("--sets", nargs="+", metavar="SET")
    options.add_argument("--contestants", nargs="+", choices=contestants, default=list(contestants))
    options.add_argument("--threads", type=int, default=2, help="cores each process may use (default 2)")
    options.add_argument("--repeats", type=int, default=3, help="processes for each contestant and set (default 3)")
    options.add_argument("--one", nargs=2, metavar=("SET", "CONTESTANT"), help="measure only this pair, in this process")
    return options


def take_turns(module: str, options: argparse.Namespace, repeats: Callable[[str], int]) -> dict[str, dict[str, Result]]:
    """The results by set and contestant. A contestant runs in `repeats` processes; its last result gets the seconds of the
    fastest."""
    results: dict[str, dict[str, Result]] = {name: {} for name in options.sets}
    for name, turn in product(options.sets, range(max(map(repeats, options.contestants)))):
        for who in options.contestants:
            if turn >= repeats(who):
                continue
            run = measured(module, name, who, options)
            fastest = min(run["seconds"], results[name].get(who, run)["seconds"])
            results[name][who] = run | {"seconds": fastest}
    return results


def measured(module: str, name: str, who: str, options: argparse.Namespace) -> Result:
    data = ["--data", str(options.data.resolve())] if options.data else []
    try:
        result = in_fresh_process(module, "--one", name, who, "--threads", str(options.threads), *data)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{name}, {who}:\n{error.stderr}")
    short = {key: value for key, value in result.items() if not isinstance(value, list)}
    print(f"{name}: {who}: {short}", file=sys.stderr, flush=True)
    return result
