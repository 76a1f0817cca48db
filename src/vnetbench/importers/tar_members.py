"""Read the members of a tar in their order, with bounded memory and in linear time.

`tarfile` holds every header, and extended headers and maps of sparse files of any size. Its search in
extended headers takes quadratic time. A log needs only names and sizes.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from vnetbench.importers.decoding import ByteStream

MAX_EXTENDED_HEADER_BYTES = 2**16
"""Longest extended header (POSIX pax) or long name (GNU)."""

_BLOCK_BYTES = tarfile.BLOCKSIZE
_SKIP_CHUNK_BYTES = 2**16
_EXTENDED_HEADER_TYPES = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_IGNORED_HEADER_TYPES = (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK)
_TYPES_WITHOUT_DATA = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE,
)  # fmt: skip
_FILE_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_SPARSE_MAP_CONTINUES_POSITIONS = 482, 504
"""Where a GNU header, and a block of the map after it, say that another block follows."""
_MAX_LENGTH_DIGITS = 10


@dataclass
class TarFileMember:
    """A member that is a file. Read it before the next one is requested."""

    name: str
    unread_bytes: int
    is_sparse: bool
    _archive: ByteStream

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end. Raises tarfile.ReadError if the tar was cut off."""
        data = self._archive.read(min(size, self.unread_bytes)) if self.unread_bytes else b""
        if not data and self.unread_bytes:
            raise tarfile.ReadError("the tar was cut off")
        self.unread_bytes -= len(data)
        return data


@dataclass
class _PendingHeaders:
    """What extended headers say about the next member."""

    name: str = ""
    size: int | None = None
    is_sparse: bool = False


def iterate_tar_members(archive: ByteStream) -> Iterator[TarFileMember | None]:
    """Yield the files of a tar; None for a member that is no file, such as a folder or a link.

    Raises:
        tarfile.TarError: The tar is damaged, or an extended header is too long.
        ValueError: A number in an extended header is invalid.
    """
    pending = _PendingHeaders()
    while block := _read_at_most(archive, _BLOCK_BYTES):
        if not block.strip(b"\0"):
            return
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        size = _reject_negative_size(header.size)
        if header.type in _EXTENDED_HEADER_TYPES or header.type == tarfile.GNUTYPE_LONGNAME:
            _add_to_pending(pending, header.type, _read_extended_header(archive, size))
            yield None
            continue
        if header.type in _IGNORED_HEADER_TYPES:
            _skip(archive, _round_up_to_block(size))
            yield None
            continue
        if header.type == tarfile.GNUTYPE_SPARSE:
            _skip_sparse_map(archive, block)
        elif header.type in _TYPES_WITHOUT_DATA:
            size = 0
        size = size if pending.size is None or header.type in _TYPES_WITHOUT_DATA else pending.size
        is_sparse = pending.is_sparse or header.type == tarfile.GNUTYPE_SPARSE
        member = TarFileMember(pending.name or header.name, size, is_sparse, archive)
        pending = _PendingHeaders()
        yield member if header.type in _FILE_TYPES or is_sparse else None
        _skip(archive, member.unread_bytes + _round_up_to_block(size) - size)


def _read_at_most(archive: ByteStream, size: int) -> bytes:
    """Return `size` bytes; fewer only at the end."""
    data = b""
    while len(data) < size and (piece := archive.read(size - len(data))):
        data += piece
    return data


def _read_extended_header(archive: ByteStream, size: int) -> bytes:
    if size > MAX_EXTENDED_HEADER_BYTES:
        raise tarfile.ReadError(f"a header has {size} bytes; the limit is {MAX_EXTENDED_HEADER_BYTES}")
    data = _read_at_most(archive, _round_up_to_block(size))
    if len(data) < size:
        raise tarfile.ReadError("the tar was cut off")
    return data[:size]


def _add_to_pending(pending: _PendingHeaders, header_type: bytes, data: bytes) -> None:
    if header_type == tarfile.GNUTYPE_LONGNAME:
        pending.name = data.split(b"\x00", 1)[0].decode("utf-8", "surrogateescape")
        return
    for keyword, value in _iterate_pax_records(data):
        if keyword == b"path":
            pending.name = value.decode("utf-8", "surrogateescape")
        elif keyword == b"size":
            pending.size = _reject_negative_size(int(value))
        elif keyword.startswith(b"GNU.sparse."):
            pending.is_sparse = True


def _iterate_pax_records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    r"""Yield the keywords and values of an extended header: `18 path=run1.log\n` (POSIX.1-2001, pax)."""
    start = 0
    while start < len(data) and data[start]:
        space = data.find(b" ", start, start + _MAX_LENGTH_DIGITS)
        length = data[start:space] if space > start else b""
        end = start + int(length) if length.isdigit() else 0
        if not start < space < end <= len(data):
            raise tarfile.ReadError("an extended header is invalid")
        keyword, _, value = data[space + 1 : end - 1].partition(b"=")
        yield keyword, value
        start = end


def _skip_sparse_map(archive: ByteStream, header: bytes) -> None:
    position, behind_header = _SPARSE_MAP_CONTINUES_POSITIONS
    block = header
    while block[position]:
        block, position = _read_at_most(archive, _BLOCK_BYTES), behind_header
        if len(block) < _BLOCK_BYTES:
            raise tarfile.ReadError("the tar was cut off")


def _skip(archive: ByteStream, size: int) -> None:
    while size:
        data = archive.read(min(size, _SKIP_CHUNK_BYTES))
        if not data:
            raise tarfile.ReadError("the tar was cut off")
        size -= len(data)


def _round_up_to_block(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _reject_negative_size(size: int) -> int:
    if size < 0:
        raise tarfile.ReadError("the size of a member is negative")
    return size
