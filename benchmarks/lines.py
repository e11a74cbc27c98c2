"""How many lines of code src/ and native/ have, without blanks, comments and docstrings, at one or more commits.

python -m benchmarks.lines [COMMIT ...]
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter

SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
COMMENTS_OF_CPP = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def lines_of_python(source: str) -> int:
    """The lines with a token that is neither a comment nor part of a docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    kept = {line for token in tokens if token.type not in SKIPPED for line in range(token.start[0], token.end[0] + 1)}
    return len(kept - docstrings)


def lines_of_cpp(source: str) -> int:
    return sum(bool(line.strip()) for line in COMMENTS_OF_CPP.sub("", source).splitlines())


def count(commit: str) -> Counter[str]:
    """The lines of each room of the package and of each folder of native/."""
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", commit, "src", "native"], capture_output=True, text=True, check=True
    )
    counts: Counter[str] = Counter()
    for path in listed.stdout.split():
        if path.endswith((".py", ".hpp", ".cpp")) and not path.startswith("native/tests"):
            shown = subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True, check=True)
            parts = path.removeprefix("src/maxmargin/").split("/")
            room = "/".join(parts[:2]) if parts[0] == "native" else parts[0].removesuffix(".py")
            counts[room] += lines_of_python(shown.stdout) if path.endswith(".py") else lines_of_cpp(shown.stdout)
    return counts


def main() -> None:
    commits = sys.argv[1:] or ["HEAD"]
    counts = [count(commit) for commit in commits]
    rooms = sorted(set().union(*counts))
    print(f"{'':24}", *(f"{commit:>12}" for commit in commits))
    for room in rooms:
        print(f"{room:24}", *(f"{one[room]:12}" for one in counts))
    print(f"{'all':24}", *(f"{sum(one.values()):12}" for one in counts))


if __name__ == "__main__":
    main()
