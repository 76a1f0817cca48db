"""Mutate logs: cut, duplicate, change and mix them, and break their encoding."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_TOKEN = re.compile(rb"[\w.,]+|[^\w\s]|\s+")
_LONG_BYTES = 3_000
_MAX_LINES = 40
"""Lines of a long log that are usually mutated: a bug needs only a few lines."""

_HOSTILE_TOKENS = (
    b"nan", b"-nan", b"inf", b"1e400", b"-1", b"0", b"0.00", b"9" * 400, b"1e-400", b"0.00-0.00", b"1.2.3,4",
    b"9223372036854775808", b"-0", b"1,5", b"%", b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"\xd0", b"\x1b[31m",
    b'"', b"null", b"true", b"[]", b"{}", b"<", b">", b"</", b"]]>", b"&#x110000;", b"\\ud800", b"\r",
)  # fmt: skip
_HOSTILE_LINES = (
    b"[" * 3000,
    b"{" * 3000,
    b'{"a":' * 2000,
    b"<a>" * 2000,
    b'{"start":',
    b"{",
    b"}",
    b"]",
    b"<ntttcps",
    b"[ ID] Interval           Transfer     Bitrate",
    b"[SUM]",
    b"- - - - - - - - - - - - - - - - - - - - - - - - -",
    b"C:\\>",
    b"$ iperf3 -c 10.0.0.1 -P 99999999999 -t -1 -l 1e400 -O",
    b"x" * 20_000,
    b"1 " * 5_000,
    b",".join([b"1"] * 3_000),
    b"=".join([b"a"] * 2_000),
)
_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp866", "cp1251", "utf-7", "utf-32")
_NEWLINES = (b"\r\n", b"\r", b"\n\r", b"\r\r\n", b"\n\n", b"", b" ", b"\x0c", b"\x85")


def mutate(rng: random.Random, text: bytes, other: bytes) -> bytes:
    """Return a mutant of a log. `other` may be mixed into it."""
    text, other = _take_piece(rng, text), _take_piece(rng, other)
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = rng.choice(MUTATIONS)(rng, text or b"\n", other)
    return text


def _take_piece(rng: random.Random, text: bytes) -> bytes:
    if len(text) <= _LONG_BYTES or not rng.randrange(25):
        return text
    lines = text.split(b"\n")
    # The head is taken more often than its share, because it describes the run.
    first = rng.choice((0, rng.randrange(len(lines))))
    return b"\n".join(lines[first : first + rng.randint(1, _MAX_LINES)])


def _change_bytes(rng: random.Random, text: bytes, other: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(rng.randint(1, 6)):
        start = rng.randrange(len(changed) or 1)
        changed[start : start + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
    return bytes(changed)


def _change_tokens(rng: random.Random, text: bytes, other: bytes) -> bytes:
    tokens = _TOKEN.findall(text) or [b"0"]
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(tokens))
        tokens[start] = rng.choice((b"", rng.choice(tokens), tokens[start] * 2, rng.choice(_HOSTILE_TOKENS)))
    return b"".join(tokens)


def _change_lines(rng: random.Random, text: bytes, other: bytes) -> bytes:
    lines, others = text.split(b"\n"), other.split(b"\n")
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(lines))
        line = rng.choice((lines[start], rng.choice(lines), rng.choice(others), rng.choice(_HOSTILE_LINES)))
        lines[start : start + rng.randint(0, 2)] = [line] * rng.randint(0, 2)
        lines = lines or [b""]
    return b"\n".join(lines)


def _swap_lines(rng: random.Random, text: bytes, other: bytes) -> bytes:
    lines = text.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _duplicate(rng: random.Random, text: bytes, other: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return text[:end] + text[start:end] + text[end:]


def _cut_out(rng: random.Random, text: bytes, other: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return rng.choice((text[:end], text[start:], text[:start] + text[end:]))


def _mix(rng: random.Random, text: bytes, other: bytes) -> bytes:
    """Mix two logs as if two programs write to one file: line by line, or one within the other."""
    if rng.randrange(2):
        start, other_start = rng.randrange(len(text) + 1), rng.randrange(len(other) + 1)
        return text[:start] + other[other_start:] + text[start:]
    sources = [text.split(b"\n"), other.split(b"\n")]
    lines = []
    while sources[0] or sources[1]:
        source = rng.choice([source for source in sources if source])
        lines.append(source.pop(0))
    return b"\n".join(lines)


def _break_encoding(rng: random.Random, text: bytes, other: bytes) -> bytes:
    start = rng.choice((0, 0, rng.randrange(len(text) + 1)))
    encoded = text[start:].decode(errors="replace").encode(rng.choice(_ENCODINGS), errors="replace")
    return text[:start] + encoded[rng.choice((0, 0, 1)) :]


def _change_newlines(rng: random.Random, text: bytes, other: bytes) -> bytes:
    return text.replace(b"\n", rng.choice(_NEWLINES), rng.choice((-1, -1, 1, 5)))


Mutation = Callable[[random.Random, bytes, bytes], bytes]
MUTATIONS: tuple[Mutation, ...] = (
    _change_bytes,
    _change_tokens,
    _change_lines,
    _swap_lines,
    _duplicate,
    _cut_out,
    _mix,
    _break_encoding,
    _change_newlines,
)
