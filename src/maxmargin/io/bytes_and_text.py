"""From a path to bytes and text, unpacked on the way; failures become `DataFileError`."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maxmargin.io.table import DataFileError, FilePath

UNPACKERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


def read_bytes(path: FilePath, limit: int = -1) -> bytes:
    """Return the bytes of `path` (at most `limit`), unpacked if it ends in .gz, .bz2 or .xz."""
    try:
        with UNPACKERS.get(Path(path).suffix.lower(), open)(path, "rb") as file:
            content: bytes = file.read(limit)
    except FileNotFoundError:
        raise DataFileError(path, "no such file") from None
    except EOFError:
        raise DataFileError(path, "the compressed file is cut off; fetch it again") from None
    except (OSError, lzma.LZMAError, zlib.error) as error:
        raise DataFileError(path, f"cannot be read: {error}") from error
    if not content.strip():
        raise DataFileError(path, "the file is empty")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataFileError(path, "the file is UTF-16 text; save it as UTF-8")
    if (position := content.find(b"\0")) >= 0:
        line = line_at(content, position)
        raise DataFileError(path, "a NUL byte: this is not a text file, or it is damaged", line)
    return content.removeprefix(codecs.BOM_UTF8)


def decode(content: bytes, path: FilePath, encoding: str) -> str:
    """Return `content` as text; the first byte that is not in `encoding` is named with its line."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        byte, line = content[error.start], line_at(content, error.start)
        reason = f"byte 0x{byte:02x} is not {encoding} (save the file as UTF-8, or pass encoding=)"
        raise DataFileError(path, reason, line) from None


def line_at(content: bytes, position: int) -> int:
    """Return the number, from 1, of the line that holds byte `position`."""
    return content.count(b"\n", 0, position) + 1
