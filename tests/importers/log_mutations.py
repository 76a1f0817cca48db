"""Logs as they should not be: what is cut, doubled, changed, mixed and written in broken encodings."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_TOKEN = re.compile(rb"[\w.,]+|[^\w\s]|\s+")
_LONG = 3_000
_MOST_LINES = 40
"""Of a log of more bytes mostly a piece of so many lines is mutated: what goes wrong does so in few lines."""

_HOSTILE = (
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


def mutant(draw: random.Random, text: bytes, other: bytes) -> bytes:
    """One mutant of a log; `other` is what may be mixed into it."""
    text, other = _piece(draw, text), _piece(draw, other)
    for _ in range(draw.choice((1, 1, 2, 3))):
        text = draw.choice(MUTATIONS)(draw, text or b"\n", other)
    return text


def _piece(draw: random.Random, text: bytes) -> bytes:
    if len(text) <= _LONG or not draw.randrange(25):
        return text
    lines = text.split(b"\n")
    # Its head is worth more than its share: there stands what a run is.
    first = draw.choice((0, draw.randrange(len(lines))))
    return b"\n".join(lines[first : first + draw.randint(1, _MOST_LINES)])


def _change_bytes(draw: random.Random, text: bytes, other: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(changed) or 1)
        changed[at : at + draw.randint(0, 2)] = draw.randbytes(draw.randint(0, 2))
    return bytes(changed)


def _change_tokens(draw: random.Random, text: bytes, other: bytes) -> bytes:
    tokens = _TOKEN.findall(text) or [b"0"]
    for _ in range(draw.randint(1, 5)):
        at = draw.randrange(len(tokens))
        tokens[at] = draw.choice((b"", draw.choice(tokens), tokens[at] * 2, draw.choice(_HOSTILE)))
    return b"".join(tokens)


def _change_lines(draw: random.Random, text: bytes, other: bytes) -> bytes:
    lines, others = text.split(b"\n"), other.split(b"\n")
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(lines))
        line = draw.choice((lines[at], draw.choice(lines), draw.choice(others), draw.choice(_HOSTILE_LINES)))
        lines[at : at + draw.randint(0, 2)] = [line] * draw.randint(0, 2)
        lines = lines or [b""]
    return b"\n".join(lines)


def _swap_lines(draw: random.Random, text: bytes, other: bytes) -> bytes:
    lines = text.split(b"\n")
    for _ in range(draw.randint(1, 3)):
        a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _double(draw: random.Random, text: bytes, other: bytes) -> bytes:
    at, until = sorted(draw.randrange(len(text) + 1) for _ in range(2))
    return text[:until] + text[at:until] + text[until:]


def _cut(draw: random.Random, text: bytes, other: bytes) -> bytes:
    at, until = sorted(draw.randrange(len(text) + 1) for _ in range(2))
    return draw.choice((text[:until], text[at:], text[:at] + text[until:]))


def _mix(draw: random.Random, text: bytes, other: bytes) -> bytes:
    """Two programs that write to one file: a line of the one, a line of the other, or one after the other."""
    if draw.randrange(2):
        at, from_ = draw.randrange(len(text) + 1), draw.randrange(len(other) + 1)
        return text[:at] + other[from_:] + text[at:]
    sources = [text.split(b"\n"), other.split(b"\n")]
    lines = []
    while sources[0] or sources[1]:
        source = draw.choice([source for source in sources if source])
        lines.append(source.pop(0))
    return b"\n".join(lines)


def _break_encoding(draw: random.Random, text: bytes, other: bytes) -> bytes:
    at = draw.choice((0, 0, draw.randrange(len(text) + 1)))
    encoded = text[at:].decode(errors="replace").encode(draw.choice(_ENCODINGS), errors="replace")
    return text[:at] + encoded[draw.choice((0, 0, 1)) :]


def _change_newlines(draw: random.Random, text: bytes, other: bytes) -> bytes:
    return text.replace(b"\n", draw.choice(_NEWLINES), draw.choice((-1, -1, 1, 5)))


Mutation = Callable[[random.Random, bytes, bytes], bytes]
MUTATIONS: tuple[Mutation, ...] = (
    _change_bytes,
    _change_tokens,
    _change_lines,
    _swap_lines,
    _double,
    _cut,
    _mix,
    _break_encoding,
    _change_newlines,
)
