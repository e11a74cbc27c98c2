"""Read bytes and text from a path, and unpack compressed files; failures become `DataFileError`."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from maxmargin.io.table import DataFileError, FilePath

UNPACKERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
CHUNK = 2**20  # bytes read at once
# Numbers as text shrink to a third or a twentieth. A file that unpacks to far more was made to fill the memory.
MOST_UNPACKED = 2**28  # bytes that any compressed file may unpack to
MOST_TIMES_UNPACKED = 200  # how many times its own size a compressed file may unpack to beyond that


@contextmanager
def open_bytes(path: FilePath) -> Iterator[Any]:
    """Open a regular file for reading bytes, unpacked if `path` ends in .gz, .bz2 or .xz; what fails is a `DataFileError`."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer, and /dev/zero has no end
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file (write its content to a file first)"
            raise DataFileError(path, f"cannot be read: it is {kind}")
        with UNPACKERS.get(Path(path).suffix.lower(), open)(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise DataFileError(path, "no such file") from None
    except EOFError:
        raise DataFileError(path, "the compressed file is cut off; fetch it again") from None
    except (OSError, lzma.LZMAError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataFileError(path, f"cannot be read: {reason}") from error


def read_bytes(path: FilePath) -> bytes:
    """Return the bytes of a text file, unpacked, without its byte order mark."""
    with open_bytes(path) as file:
        return checked_bytes(file, path, most_unpacked(path))


def most_unpacked(path: FilePath) -> int:
    """How many bytes a file of this size may unpack to."""
    return max(MOST_UNPACKED, MOST_TIMES_UNPACKED * os.stat(path).st_size)


def checked_bytes(file: Any, path: FilePath, most: float = inf) -> bytes:
    """Return the bytes of an open text file, at most `most`, without its byte order mark; `path` is for messages."""
    content = b"".join(_chunks(file, path, most))
    if not content.strip():
        raise DataFileError(path, "the file is empty")
    return content.removeprefix(codecs.BOM_UTF8)


def _chunks(file: Any, path: FilePath, most: float) -> Iterator[bytes]:
    """Yield the content piece by piece; content that is not text is refused before more of it is read."""
    n_bytes, n_lines = 0, 1
    while chunk := file.read(CHUNK):
        if n_bytes == 0 and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise DataFileError(path, "the file is UTF-16 text; save it as UTF-8")
        if (position := chunk.find(b"\0")) >= 0:
            line = n_lines + chunk.count(b"\n", 0, position)
            raise DataFileError(path, "a NUL byte: this is not a text file, or it is damaged", line)
        n_bytes += len(chunk)
        n_lines += chunk.count(b"\n")
        if n_bytes > most:
            reason = f"the file unpacks to more than {most:,} bytes (if this is right, unpack it first)"
            raise DataFileError(path, reason)
        yield chunk


def decode(content: bytes, path: FilePath, encoding: str) -> str:
    """Return `content` as text; the first byte that is not in `encoding` is named with its line."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        byte, line = content[error.start], content.count(b"\n", 0, error.start) + 1
        reason = f"byte 0x{byte:02x} is not {encoding} (save the file as UTF-8, or pass encoding=)"
        raise DataFileError(path, reason, line) from None
