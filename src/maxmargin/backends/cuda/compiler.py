"""Our CUDA C++ as machine code: compiled by NVRTC, which needs no card and no CUDA toolkit, and kept on disk.

Each kernel is compiled when it is first needed, alone: `compiled("solve.cu", "solve_tiles<float, 1, 4, 256>", 90)`. The code
lies in the folder MAXMARGIN_CACHE, or `maxmargin` in the user's folder for caches, under a name made of all it depends on.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from cuda.bindings import nvrtc

SOURCES = Path(__file__).parent / "sources"
OPTIONS = ("--std=c++17",)


class CudaError(RuntimeError):
    """A call of CUDA has failed."""


class Binary(NamedTuple):
    """Machine code, and the name of the kernel in it."""

    name: bytes
    code: bytes


def compile_kernel(file: str, expression: str, capability: int) -> Binary:
    """Compile one kernel, an instance of a template, for cards of this compute capability (90 for 9.0). It needs no card."""
    source = (SOURCES / file).read_bytes()
    options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture=sm_{capability}")]
    program = checked(nvrtc.nvrtcCreateProgram(source, file.encode(), 0, [], []))
    try:
        checked(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        (outcome,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if outcome != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = bytearray(checked(nvrtc.nvrtcGetProgramLogSize(program)))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC cannot compile {expression} of {file} for sm_{capability}: {log.decode().strip(chr(0))}")
        code = bytearray(checked(nvrtc.nvrtcGetCUBINSize(program)))
        checked(nvrtc.nvrtcGetCUBIN(program, code))
        return Binary(bytes(checked(nvrtc.nvrtcGetLoweredName(program, expression.encode()))), bytes(code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compiled(file: str, expression: str, capability: int) -> Binary:
    """Like `compile_kernel`, from the cache on disk if it is there."""
    version = checked(nvrtc.nvrtcVersion())
    told = (expression, capability, OPTIONS, version, (SOURCES / file).read_text(encoding="utf-8"))
    path = _cache_folder() / (hashlib.sha256(repr(told).encode()).hexdigest() + ".cubin")
    try:
        name, _, code = path.read_bytes().partition(b"\n")
        return Binary(name, code)
    except OSError:
        pass
    made = compile_kernel(file, expression, capability)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as partial:
            partial.write(made.name + b"\n" + made.code)
        os.replace(partial.name, path)  # another process sees the whole file or none
    except OSError:  # a cache that cannot be written to is none
        pass
    return made


def _cache_folder() -> Path:
    if named := os.environ.get("MAXMARGIN_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxmargin"


def checked(answer: tuple[Any, ...]) -> Any:
    """The answer of a call of CUDA, without its status."""
    status, *found = answer
    if int(status) != 0:
        raise CudaError(f"CUDA: {status.name}")
    return found[0] if len(found) == 1 else tuple(found)
