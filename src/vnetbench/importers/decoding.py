"""The bytes of a log as lines of text: encodings that change, every newline, no control characters.

Nothing says which encoding a log is in, and one file may have several: PowerShell's `>>` appends UTF-16 to
what cmd.exe wrote in the console's code page. So each line is judged by itself where its bytes leave a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Protocol

CHUNK = 2**18
MAX_LINE = 2**24
"""Bytes; a longer line is taken in pieces of this length."""

_NEWLINE = re.compile(r"\r\n|\r|\n")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff]")
"""With ANSI's colours, as sockperf prints them."""
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")

NARROW, LITTLE, BIG = "8 bit", "utf-16-le", "utf-16-be"
_MARKS = {b"\xff\xfe": LITTLE, b"\xfe\xff": BIG}
_ENDS = {
    NARROW: re.compile(rb"\r\n|\r|\n"),
    LITTLE: re.compile(rb"\r\x00\n\x00|\r\x00|\n\x00"),
    BIG: re.compile(rb"\x00\r\x00\n|\x00\r|\x00\n"),
}
_SEEN = 256
"""Bytes of a line that tell how wide its characters are."""


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes or fewer; none at the end."""


def lines_of(stream: Readable) -> Iterator[str]:
    """The lines of a log, without their ends. Raises what reading the stream raises."""
    rest, width = b"", NARROW
    while chunk := stream.read(CHUNK):
        data = rest + chunk
        if width == NARROW and b"\x00" not in data and data[:2] not in _MARKS:
            whole = _whole_lines(data)
            yield from _narrow_lines(data[:whole])
            rest = data[whole:]
        else:
            rest, width = yield from _judged_lines(data, width, is_last=False)
        if len(rest) >= MAX_LINE:
            yield _cleaned(_decoded(rest, width))
            rest = b""
    if rest:
        yield from _judged_lines(rest, width, is_last=True)


def _whole_lines(data: bytes) -> int:
    """How many bytes make whole lines; a CR that ends the data may be half of a newline."""
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1


def _narrow_lines(data: bytes) -> Iterator[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        for line in _ENDS[NARROW].split(data)[:-1]:
            yield _cleaned(_decoded(line, NARROW))
    else:
        yield from _NEWLINE.split(_cleaned(text))[:-1]


def _judged_lines(data: bytes, width: str, *, is_last: bool) -> Generator[str, None, tuple[bytes, str]]:
    """Line by line, each as wide as its own bytes say; returns what is left and the last line's width."""
    at = 0
    # A line whose beginning is not all there may yet turn out to be of another width.
    while at < len(data) and (is_last or at + _SEEN <= len(data)):
        marked = _MARKS.get(data[at : at + 2])
        at += 2 if marked else 0
        width = marked or _width(data[at : at + _SEEN], width)
        end = _line_end(data, at, width, is_last=is_last)
        if end is None:
            break
        yield _cleaned(_decoded(data[at : end[0]], width))
        at = end[1]
    return data[at:], width


def _line_end(data: bytes, at: int, width: str, *, is_last: bool) -> tuple[int, int] | None:
    """Where a line ends and the next begins; None where that is not in the data yet."""
    for found in _ENDS[width].finditer(data, at):
        if width != NARROW and (found.start() - at) % 2:
            continue
        may_go_on = found.end() == len(data) and b"\n" not in found[0]
        return None if may_go_on and not is_last else found.span()
    return (len(data), len(data)) if is_last else None


def _width(head: bytes, before: str) -> str:
    """How wide the characters of the line are that begins so: where among its bytes the NULs stand."""
    end = re.search(rb"[\r\n]", head)
    if end:
        head = head[: end.end() + (head[end.end() : end.end() + 1] == b"\x00")]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if bool(even) == bool(odd):
        return NARROW  # no NUL at all; or stray ones in a damaged log
    width, many = (LITTLE, odd) if odd else (BIG, even)
    return width if width == before or many * 4 >= len(head) else NARROW


def _decoded(line: bytes, width: str) -> str:
    if width != NARROW:
        return line.decode(width, errors="replace")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode(_code_page(line), errors="replace")


def _code_page(line: bytes) -> str:
    """The code page that a line which is no UTF-8 is most likely in.

    Cyrillic makes whole words of high bytes: in CP866 the letters are 80–AF and E0–EF, in CP1251 C0–FF. The
    letters of western languages stand alone among ASCII, in CP850 below A0, in Latin-1 above.
    """
    runs = _HIGH_RUN.findall(line)
    is_cyrillic = sum(len(run) for run in runs if len(run) > 1) * 2 > sum(map(len, runs))
    high = b"".join(runs)
    low = sum(byte < 0xB0 for byte in high)
    if is_cyrillic:
        return "cp866" if low > sum(0xC0 <= byte <= 0xDF or byte >= 0xF2 for byte in high) else "cp1251"
    return "cp850" if any(byte < 0xA0 for byte in high) else "latin-1"


def _cleaned(text: str) -> str:
    return _CONTROL.sub("", text) if _CONTROL.search(text) else text
