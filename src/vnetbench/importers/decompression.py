"""Decompress gzip, xz and bzip2 in pieces of bounded size, whatever the compressed file says.

The classes of the standard library do not bound the memory of xz, nor the time that very many concatenated
files without content take.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from vnetbench.importers.decoding import ByteStream

MAX_XZ_MEMORY_BYTES = 96 * 2**20
"""Memory for unpacking one xz file. `xz -9` needs 65 MiB."""

_CHUNK_BYTES = 2**16
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


class Decompressor(Protocol):
    """Decompresses one file, as `bz2.BZ2Decompressor` does."""

    @property
    def eof(self) -> bool:
        """Whether the end of the compressed file was reached."""

    @property
    def needs_input(self) -> bool:
        """Whether `decompress` returns more only if it gets more."""

    @property
    def unused_data(self) -> bytes:
        """Data that follows the compressed file."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return at most `max_length` bytes of the content."""


class _GzipDecompressor:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_GZIP_FORMAT)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        unpacked = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        # Without a rest of the input, content may still wait in zlib if all of `max_length` was needed.
        self.needs_input = not self._zlib.unconsumed_tail and len(unpacked) < max_length
        return unpacked


DECOMPRESSOR_BY_FORMAT: Mapping[str, Callable[[], Decompressor]] = {
    "gz": _GzipDecompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY_BYTES),
    "bz2": bz2.BZ2Decompressor,
}


class DecompressedStream:
    """The content of a compressed file, or of several that are concatenated."""

    def __init__(
        self,
        packed: ByteStream,
        make_decompressor: Callable[[], Decompressor],
        on_compressed_file: Callable[[], None],
    ) -> None:
        """Start at the first byte. `on_compressed_file` is called for every concatenated file."""
        self._packed, self._make_decompressor = packed, make_decompressor
        self._on_compressed_file = on_compressed_file
        self._waiting = b""
        """Data that was read, but that the decompressor does not have yet."""
        on_compressed_file()
        self._decompressor = make_decompressor()

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end.

        Raises:
            EOFError: The compressed file was cut off.
            OSError, zlib.error, lzma.LZMAError: It is damaged, or needs too much memory.
        """
        while not self._decompressor.eof or self._start_next_file():
            chunk = b""
            if self._decompressor.needs_input:
                chunk, self._waiting = self._waiting or self._packed.read(_CHUNK_BYTES), b""
                if not chunk:
                    raise EOFError("the compressed file was cut off")
            if unpacked := self._decompressor.decompress(chunk, size):
                return unpacked
        return b""

    def _start_next_file(self) -> bool:
        """Continue after the end of a compressed file. Return whether another one follows."""
        rest = self._decompressor.unused_data.lstrip(b"\x00")
        while not rest:
            chunk = self._packed.read(_CHUNK_BYTES)
            if not chunk:
                return False
            rest = chunk.lstrip(b"\x00")
        self._on_compressed_file()
        self._waiting, self._decompressor = rest, self._make_decompressor()
        return True
