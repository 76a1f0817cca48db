"""Decode logs into lines, for all encodings and newlines."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetbench.importers import decoding
from vnetbench.importers.decoding import decode_lines

pytestmark = pytest.mark.pure

RUSSIAN = "Обмен пакетами с 10.0.0.1 по 32 байта"
GERMAN = "Übertragung läuft für 10 s"


def read(data: bytes) -> list[str]:
    return list(decode_lines(io.BytesIO(data)))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp866", "cp1251"])
def test_russian_is_decoded_in_every_console_encoding(encoding: str) -> None:
    assert read(f"{RUSSIAN}\r\n[  5] 0.00-1.00\r\n".encode(encoding)) == [RUSSIAN, "[  5] 0.00-1.00"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1", "cp850"])
def test_german_is_decoded_in_every_console_encoding(encoding: str) -> None:
    assert read(f"{GERMAN}\n".encode(encoding)) == [GERMAN]


def test_big_endian_utf_16_is_recognized_by_its_byte_order_mark() -> None:
    assert read(b"\xfe\xff" + f"{RUSSIAN}\r\nend".encode("utf-16-be")) == [RUSSIAN, "end"]


def test_utf_16_that_powershell_appends_without_a_mark_is_decoded() -> None:
    data = b"C:\\> iperf3\r\n" + f"PS> iperf3\r\n{RUSSIAN}\r\n".encode("utf-16-le") + b"C:\\> exit\r\n"

    assert read(data) == ["C:\\> iperf3", "PS> iperf3", RUSSIAN, "C:\\> exit"]


def test_a_byte_order_mark_within_a_file_starts_utf_16() -> None:
    assert read(b"one\r\n" + "two\r\n".encode("utf-16") + b"three") == ["one", "two", "three"]


def test_lines_end_in_cr_lf_or_both() -> None:
    assert read(b"one\rtwo\nthree\r\n\r\nfive") == ["one", "two", "three", "", "five"]


def test_control_characters_and_colors_are_removed() -> None:
    assert read(b"\x1b[31msockperf:\x1b[0m 1\x00\x07\t2\n") == ["sockperf: 1\t2"]


def test_stray_nuls_do_not_make_a_line_utf_16() -> None:
    line = b"[  5]   0.00-1.00   sec  1.62 GBytes  13.9 Gbits/sec"

    assert read(line[:21] + b"\x00" + line[22:] + b"\n" + line + b"\n")[1] == line.decode()


def test_chunk_boundaries_do_not_change_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    data = f"first\r\n{RUSSIAN}\r\nlast\r".encode("utf-16") + b"narrow\r\nend"
    expected = read(data)

    for chunk in (1, 2, 3, 5, 7, 64):
        monkeypatch.setattr(decoding, "READ_CHUNK_BYTES", chunk)
        assert read(data) == expected


def test_a_very_long_line_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "READ_CHUNK_BYTES", 64)
    monkeypatch.setattr(decoding, "MAX_UNSPLIT_LINE_BYTES", 1024)
    lines = read(b"x" * 10_000 + b"\nend\n")

    assert lines[-1] == "end"
    assert max(map(len, lines)) <= 1024
    assert "".join(lines[:-1]) == "x" * 10_000


@given(st.binary(max_size=300))
def test_any_bytes_decode_to_lines(data: bytes) -> None:
    for line in read(data):
        assert "\n" not in line and "\r" not in line and "\x00" not in line


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=20), max_size=20)
)
def test_utf_8_is_decoded_unchanged(lines: list[str]) -> None:
    assert read("".join(f"{line}\n" for line in lines).encode()) == lines


def test_random_bytes_are_decoded_to_the_end() -> None:
    assert sum(map(len, read(os.urandom(300_000)))) <= 600_000
