"""Decode the bytes of a log into lines: changing encodings, every kind of newline, no control characters.

A log does not state its encoding, and one file may have several: PowerShell's `>>` appends UTF-16 to what
cmd.exe wrote in the console's code page. So each line is decoded by itself if its bytes leave a doubt.
Libraries such as charset-normalizer decide for a whole file, so they cannot replace this module.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final, Literal, NamedTuple, Protocol

READ_CHUNK_BYTES = 2**18
MAX_UNSPLIT_LINE_BYTES = 2**24
"""A longer line is split into pieces of this length."""

_LINE_END_PATTERN = re.compile(r"\r\n|\r|\n")
_CONTROL_CHARACTER_PATTERN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff]")
"""Control characters, and ANSI colors such as sockperf prints."""
_CONTROL_BYTES = bytes(byte for byte in range(128) if _CONTROL_CHARACTER_PATTERN.fullmatch(chr(byte)))
_NON_ASCII_RUN_PATTERN = re.compile(rb"[\x80-\xff]+")

Encoding = Literal["utf-8 or code page", "utf-16-le", "utf-16-be"]
UTF_8_OR_CODE_PAGE: Final = "utf-8 or code page"
UTF_16_LE: Final = "utf-16-le"
UTF_16_BE: Final = "utf-16-be"
_ENCODING_BY_BYTE_ORDER_MARK: dict[bytes, Encoding] = {b"\xff\xfe": UTF_16_LE, b"\xfe\xff": UTF_16_BE}
_LINE_END_PATTERN_BY_ENCODING: dict[Encoding, re.Pattern[bytes]] = {
    UTF_8_OR_CODE_PAGE: re.compile(rb"\r\n|\r|\n"),
    UTF_16_LE: re.compile(rb"\r\x00\n\x00|\r\x00|\n\x00"),
    UTF_16_BE: re.compile(rb"\x00\r\x00\n|\x00\r|\x00\n"),
}
_ENCODING_PROBE_BYTES = 256
"""Bytes at the start of a line that decide its encoding."""


class _LineEnd(NamedTuple):
    """Where a line ends, and where the next one starts: positions in the data, in bytes."""

    line_end: int
    next_line_start: int


class ByteStream(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


def decode_lines(stream: ByteStream) -> Iterator[str]:
    """Yield the lines of a log without their newlines. Raises what reading the stream raises."""
    rest = b""
    encoding: Encoding = UTF_8_OR_CODE_PAGE
    pieces, piece_bytes, enough_bytes = [rest], 0, 0
    while chunk := stream.read(READ_CHUNK_BYTES):
        pieces.append(chunk)
        piece_bytes += len(chunk)
        if piece_bytes < enough_bytes:
            continue
        data = b"".join(pieces)
        if (
            encoding == UTF_8_OR_CODE_PAGE
            and b"\x00" not in data
            and data[:2] not in _ENCODING_BY_BYTE_ORDER_MARK
        ):
            complete = _complete_lines_byte_count(data)
            yield from _decode_8_bit_lines(data[:complete])
            rest = data[complete:]
        else:
            rest, encoding = yield from _decode_mixed_lines(data, encoding, is_last=False)
        if len(rest) >= MAX_UNSPLIT_LINE_BYTES:
            yield _remove_control_characters(_decode_line(rest, encoding))
            rest = b""
        pieces, piece_bytes = [rest], len(rest)
        # A search in a long line starts again only when the line has doubled, or its time would be quadratic.
        enough_bytes = min(2 * len(rest), MAX_UNSPLIT_LINE_BYTES)
    rest = b"".join(pieces)
    if rest:
        yield from _decode_mixed_lines(rest, encoding, is_last=True)


def _complete_lines_byte_count(data: bytes) -> int:
    """Return how many bytes are complete lines. A CR at the end of the data may be half of a newline."""
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1


def _decode_8_bit_lines(data: bytes) -> Iterator[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        for line in _LINE_END_PATTERN_BY_ENCODING[UTF_8_OR_CODE_PAGE].split(data)[:-1]:
            yield _remove_control_characters(_decode_line(line, UTF_8_OR_CODE_PAGE))
    else:
        if len(data.translate(None, _CONTROL_BYTES)) < len(data) or "\ufeff" in text:
            text = _remove_control_characters(text)
        # A text without CR is the usual one, and the quickest to split.
        yield from (_LINE_END_PATTERN.split(text) if "\r" in text else text.split("\n"))[:-1]


def _decode_mixed_lines(
    data: bytes, encoding: Encoding, *, is_last: bool
) -> Generator[str, None, tuple[bytes, Encoding]]:
    """Yield lines, each in the encoding that its own bytes suggest.

    Returns:
        The rest of the data, and the encoding of the last line.
    """
    start = 0
    # Until its probe bytes are there, a line may turn out to have another encoding.
    while start < len(data) and (is_last or start + _ENCODING_PROBE_BYTES <= len(data)):
        marked = _ENCODING_BY_BYTE_ORDER_MARK.get(data[start : start + 2])
        start += 2 if marked else 0
        encoding = marked or _guess_encoding_by_nul_positions(
            data[start : start + _ENCODING_PROBE_BYTES], encoding
        )
        end = _find_line_end(data, start, encoding, is_last=is_last)
        if end is None:
            break
        yield _remove_control_characters(_decode_line(data[start : end.line_end], encoding))
        start = end.next_line_start
    return data[start:], encoding


def _find_line_end(data: bytes, start: int, encoding: Encoding, *, is_last: bool) -> _LineEnd | None:
    """Return the end of the line that starts at `start`; None if the data does not reach that far."""
    for ending in _LINE_END_PATTERN_BY_ENCODING[encoding].finditer(data, start):
        if encoding != UTF_8_OR_CODE_PAGE and (ending.start() - start) % 2:
            continue
        may_continue = ending.end() == len(data) and b"\n" not in ending[0]
        return None if may_continue and not is_last else _LineEnd(*ending.span())
    return _LineEnd(len(data), len(data)) if is_last else None


def _guess_encoding_by_nul_positions(line_start: bytes, previous_encoding: Encoding) -> Encoding:
    """Return the encoding of the line that starts with these bytes, by the positions of the NUL bytes."""
    end = re.search(rb"[\r\n]", line_start)
    if end:
        line_start = line_start[: end.end() + (line_start[end.end() : end.end() + 1] == b"\x00")]
    even, odd = line_start[0::2].count(0), line_start[1::2].count(0)
    if bool(even) == bool(odd):
        return UTF_8_OR_CODE_PAGE  # No NUL at all, or stray ones in a damaged log.
    encoding: Encoding = UTF_16_LE if odd else UTF_16_BE
    nul_count = odd or even
    return (
        encoding if encoding == previous_encoding or nul_count * 4 >= len(line_start) else UTF_8_OR_CODE_PAGE
    )


def _decode_line(line: bytes, encoding: Encoding) -> str:
    if encoding != UTF_8_OR_CODE_PAGE:
        return line.decode(encoding, errors="replace")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode(_guess_code_page(line), errors="replace")


def _guess_code_page(line: bytes) -> str:
    """Return the most likely code page of a line that is not UTF-8.

    Cyrillic words consist of high bytes: the letters are 80–AF and E0–EF in CP866, and C0–FF in CP1251.
    Western letters stand alone among ASCII: below A0 in CP850, above in Latin-1.
    """
    high_runs = _NON_ASCII_RUN_PATTERN.findall(line)
    is_cyrillic = sum(len(run) for run in high_runs if len(run) > 1) * 2 > sum(map(len, high_runs))
    high = b"".join(high_runs)
    low = sum(byte < 0xB0 for byte in high)
    if is_cyrillic:
        return "cp866" if low > sum(0xC0 <= byte <= 0xDF or byte >= 0xF2 for byte in high) else "cp1251"
    return "cp850" if any(byte < 0xA0 for byte in high) else "latin-1"


def _remove_control_characters(text: str) -> str:
    return _CONTROL_CHARACTER_PATTERN.sub("", text) if _CONTROL_CHARACTER_PATTERN.search(text) else text
