"""Damage to text files: what a disk, an editor, a download or a spreadsheet does to them, and unexpected content."""

from __future__ import annotations

from collections.abc import Callable

from numpy.random import Generator

HOSTILE_WORDS = (
    b"1e999",
    b"-1e308",
    b"1e-320",
    b"nan",
    b"-inf",
    b"9" * 4300,
    b"9" * 5000,
    b"0." + b"3" * 5000,
    b"0x10",
    b"1_000",
    b"1,5",
    b"2147483646:1",
    b"2147483647:1",
    b"2147483648:1",
    b"4294967296:1",
    b"9223372036854775807:1",
    b"99999999999999999999:1",
    b"-1:1",
    b"0:1",
    b"3:",
    b":5",
    b"1:2:3",
    b"qid:7",
    b"1:nan",
    b"\xd9\xa3:1",
    "٣".encode(),
    b"#",
    b'"',
    b"''",
    b"\\",
    b"%s",
    b"{}",
)
HOSTILE_LINES = (
    b"",
    b" ",
    b"\t\t",
    b"#",
    b"1",
    b"1 1:1",
    b"x y z",
    b",,,,",
    b";;;",
    b'"a',
    b"\xff\xfe\x00",
    b"\x00",
    b"1 " * 5000,
    b"1," * 20000,
    b"nr_class 1000000000",
    b"total_sv -1",
    b"nr_class 0",
    b"nr_class two",
    b"svm_type x",
    b"kernel_type precomputed",
    b"gamma -1",
    b"degree 9999999999",
    b"rho",
    b"label 1",
    b"nr_sv 1000000 1",
    b"SV",
)

Mutation = Callable[[Generator, bytes], bytes]


def _place(rng: Generator, content: bytes) -> int:
    return int(rng.integers(len(content) + 1))


def flip_bytes(rng: Generator, content: bytes) -> bytes:
    damaged = bytearray(content or b"\n")
    for _ in range(int(rng.integers(1, 6))):
        damaged[rng.integers(len(damaged))] = int(rng.integers(256))
    return bytes(damaged)


def cut_end(rng: Generator, content: bytes) -> bytes:
    return content[: _place(rng, content)]


def cut_out(rng: Generator, content: bytes) -> bytes:
    start = _place(rng, content)
    return content[:start] + content[start + int(rng.integers(1, 60)) :]


def repeat_part(rng: Generator, content: bytes) -> bytes:
    start = _place(rng, content)
    return content[:start] + content[start : start + int(rng.integers(1, 200))] * int(rng.integers(2, 20)) + content[start:]


def drop_line(rng: Generator, content: bytes) -> bytes:
    lines = content.split(b"\n")
    del lines[int(rng.integers(len(lines)))]
    return b"\n".join(lines)


def swap_lines(rng: Generator, content: bytes) -> bytes:
    lines = content.split(b"\n")
    i, j = rng.integers(len(lines), size=2)
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def hostile_line(rng: Generator, content: bytes) -> bytes:
    lines = content.split(b"\n")
    at = int(rng.integers(len(lines)))
    lines[at : at + int(rng.integers(2))] = [HOSTILE_LINES[int(rng.integers(len(HOSTILE_LINES)))]]
    return b"\n".join(lines)


def hostile_word(rng: Generator, content: bytes) -> bytes:
    """Replace a word between spaces, commas or colons by another one."""
    word = HOSTILE_WORDS[int(rng.integers(len(HOSTILE_WORDS)))]
    start = _place(rng, content)
    while start > 0 and content[start - 1 : start] not in (b" ", b",", b"\n", b":", b";"):
        start -= 1
    end = start
    while end < len(content) and content[end : end + 1] not in (b" ", b",", b"\n", b":", b";"):
        end += 1
    return content[:start] + word + content[end:]


def other_line_ends(rng: Generator, content: bytes) -> bytes:
    return content.replace(b"\n", (b"\r\n", b"\r", b"\x0b", b"\n\n")[int(rng.integers(4))])


def other_encoding(rng: Generator, content: bytes) -> bytes:
    text = content.decode("latin-1")
    match int(rng.integers(4)):
        case 0:
            return b"\xef\xbb\xbf" + content
        case 1:
            return text.encode("utf-16")
        case 2:
            return text.encode("utf-32")
    return text.replace("1", "１").encode()


def nothing_left(rng: Generator, content: bytes) -> bytes:
    return (b"", b"\n", b" \n\t", b"# nothing\n", b"\x00" * 100)[int(rng.integers(5))]


MUTATIONS: tuple[Mutation, ...] = (
    flip_bytes,
    flip_bytes,
    cut_end,
    cut_out,
    repeat_part,
    drop_line,
    swap_lines,
    hostile_line,
    hostile_line,
    hostile_word,
    hostile_word,
    hostile_word,
    hostile_word,
    other_line_ends,
    other_encoding,
    nothing_left,
)


def mutate(rng: Generator, content: bytes) -> tuple[bytes, list[str]]:
    """The file with one to three kinds of damage, and their names."""
    names = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        mutation = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
        content = mutation(rng, content)
        names.append(mutation.__name__)
    return content, names
