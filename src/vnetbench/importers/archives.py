"""Find the logs in files, folders, archives, and archives within them.

No member is unpacked to disk under its name: its path is only a label. Limits protect against hostile
archives: the nesting depth here, everything else in `unpack_budget.py`. No size that an archive states is
trusted.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from io import BufferedReader, RawIOBase
from pathlib import Path
from tempfile import SpooledTemporaryFile

from vnetbench.errors import BenchError
from vnetbench.importers.decoding import ByteStream
from vnetbench.importers.decompression import DECOMPRESSOR_BY_FORMAT, DecompressedStream
from vnetbench.importers.tar_members import iterate_tar_members
from vnetbench.importers.unpack_budget import UnpackBudget
from vnetbench.importers.zip_members import list_non_folder_members, open_zip, open_zip_member
from vnetbench.printable import make_printable

MAX_ARCHIVE_DEPTH = 3
"""Nesting depth of archives. `logs.zip` with `host.tar.gz` in it has depth 3, because the tar is
compressed."""
MAX_MEMBER_NAME_CHARACTERS = 500
"""Longest path of a member in names of logs. Of a longer one the end is kept."""

_READ_BUFFER_BYTES = 2**16
_SPOOL_TO_DISK_ABOVE_BYTES = 2**24
_ARCHIVE_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "zip"),
    (0, b"\x1f\x8b", "gz"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"BZh", "bz2"),
    (257, b"ustar", "tar"),
)
"""Position and bytes that identify a format. Names are not reliable."""
_IGNORED_SUFFIXES = {
    ".vnb", ".html", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".docx", ".exe", ".dll", ".toml",
    ".py", ".sh", ".ps1", ".bat", ".md",
}  # fmt: skip
"""Suffixes of files that often accompany logs. They are skipped in folders and archives."""
_ZIPPED_TABLE_SUFFIXES = (".xlsx",)
"""Files that are a zip by their bytes, but not an archive."""
_UNPACK_ERRORS = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
    NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
"""Exceptions from unpacking a damaged, encrypted or invalid archive."""


_OnRead = Callable[[str, bytes], None]
"""Gets the name of a stream and each piece of data that is read from it."""


class _DamageTolerantStream(RawIOBase):
    """A stream that ends where its data is damaged, and reports every read to a callback."""

    def __init__(self, stream: ByteStream, name: str, on_read: _OnRead) -> None:
        self._stream, self._name, self._on_read = stream, name, on_read
        self.damage = ""
        self.digest = blake2b(digest_size=16)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer. Raises BenchError if the archives unpack to too much."""
        try:
            data = self._stream.read(len(buffer))
        except _UNPACK_ERRORS as error:
            self.damage = self.damage or f"the file is damaged, so its rest was not read ({str(error)[:200]})"
            return 0
        self._on_read(self._name, data)
        self.digest.update(data)
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class LogSource:
    """A log that can be read once, before the next one is requested."""

    display_path: str
    """The path, followed by the path in an archive: `logs.zip: host1/run.txt`."""
    stream: ByteStream
    _damage_tolerant_stream: _DamageTolerantStream

    @property
    def damage_description(self) -> str:
        """Why the log ended early, once it is read; empty if it did not."""
        return self._damage_tolerant_stream.damage

    @property
    def content_digest(self) -> bytes:
        """Digest of the bytes, once the log is read. A copy has the same."""
        return self._damage_tolerant_stream.digest.digest()


@dataclass(frozen=True)
class UnreadableFile:
    """A file, or a member of an archive, that cannot be read at all."""

    display_path: str
    reason: str


def find_logs(
    paths: Sequence[Path],
    budget: UnpackBudget | None = None,
    on_read_bytes: Callable[[int], None] = lambda size: None,
) -> Iterator[LogSource | UnreadableFile]:
    """Yield the logs of files, folders and archives, in the order of the paths and then of the names.

    Args:
        paths: Files and folders.
        budget: Limits for archives.
        on_read_bytes: Called with the number of bytes of every piece of the files.

    Raises:
        BenchError: A path cannot be read, or archives exceed the budget.
    """
    budget = budget or UnpackBudget()
    for path in paths:
        for file in _list_log_files(path) if path.is_dir() else [path]:
            name = make_printable(str(file))
            try:
                stream = file.open("rb")
            except OSError as error:
                if path.is_dir():
                    yield UnreadableFile(name, f"cannot read the file: {error.strerror}")
                    continue
                fix = "name a log, a folder of logs or an archive"
                raise BenchError(f"cannot read the file: {error.strerror}", where=name, fix=fix) from error
            with stream:
                yield from _find_logs_in_stream(
                    name, stream, lambda _, data: on_read_bytes(len(data)), budget, MAX_ARCHIVE_DEPTH
                )


def total_file_bytes(paths: Sequence[Path]) -> int:
    """Return the size of all files under these paths, compressed as they are."""
    files = (file for path in paths for file in (_list_log_files(path) if path.is_dir() else [path]))
    return sum(file.stat().st_size for file in files if file.is_file())


def _list_log_files(folder: Path) -> list[Path]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if _may_be_log_file_name(path.relative_to(folder).as_posix())]


def _may_be_log_file_name(name: str) -> bool:
    parts = (part for part in name.split("/") if part not in (".", ".."))
    is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return not is_hidden and Path(name).suffix.lower() not in _IGNORED_SUFFIXES


def _find_logs_in_stream(
    name: str,
    stream: ByteStream,
    on_read: _OnRead,
    budget: UnpackBudget,
    remaining_depth: int,
) -> Iterator[LogSource | UnreadableFile]:
    """Yield the logs that a stream is or contains."""
    raw = _DamageTolerantStream(stream, name, on_read)
    reader = BufferedReader(raw, _READ_BUFFER_BYTES)
    head = reader.peek(_READ_BUFFER_BYTES)
    archive_format = next(
        (
            archive_format
            for at, begin, archive_format in _ARCHIVE_SIGNATURES
            if head[at : at + len(begin)] == begin
        ),
        None,
    )
    if archive_format is None or name.lower().endswith(_ZIPPED_TABLE_SUFFIXES):
        budget.subtract_log(name)
        yield LogSource(name, reader, raw)
    elif remaining_depth == 0:
        yield UnreadableFile(name, f"archives are nested more than {MAX_ARCHIVE_DEPTH} levels deep")
    else:
        try:
            yield from _UNPACKERS_BY_FORMAT[archive_format](name, reader, budget, remaining_depth - 1)
            while reader.read(_READ_BUFFER_BYTES):
                pass  # A compressed archive has its checksum after the last member.
        except _UNPACK_ERRORS as error:
            yield UnreadableFile(name, f"the archive is damaged or unsupported ({str(error)[:200]})")
        else:
            if raw.damage:
                yield UnreadableFile(name, raw.damage)


def _find_logs_in_compressed_file(
    archive_format: str,
    name: str,
    stream: BufferedReader[_DamageTolerantStream],
    budget: UnpackBudget,
    remaining_depth: int,
) -> Iterator[LogSource | UnreadableFile]:
    unpacked = DecompressedStream(
        stream, DECOMPRESSOR_BY_FORMAT[archive_format], lambda: budget.subtract_member(name)
    )
    yield from _find_logs_in_stream(name, unpacked, budget.subtract_data, budget, remaining_depth)


def _find_logs_in_zip(
    name: str, stream: BufferedReader[_DamageTolerantStream], budget: UnpackBudget, remaining_depth: int
) -> Iterator[LogSource | UnreadableFile]:
    # The list of members is at the end of a zip, and not every stream can seek there.
    with SpooledTemporaryFile(_SPOOL_TO_DISK_ABOVE_BYTES) as whole:
        shutil.copyfileobj(stream, whole, _READ_BUFFER_BYTES)
        with open_zip(whole) as archive:
            for member in sorted(list_non_folder_members(archive), key=lambda member: member.filename):
                budget.subtract_member(name)
                if not _may_be_log_file_name(member.filename):
                    continue
                inner = _member_display_path(name, member.filename)
                try:
                    packed = open_zip_member(archive, member)
                except _UNPACK_ERRORS as error:
                    yield UnreadableFile(inner, f"the file is damaged or unsupported ({str(error)[:200]})")
                    continue
                with packed:
                    yield from _find_logs_in_stream(
                        inner, packed, budget.subtract_data, budget, remaining_depth
                    )


def _find_logs_in_tar(
    name: str, stream: BufferedReader[_DamageTolerantStream], budget: UnpackBudget, remaining_depth: int
) -> Iterator[LogSource | UnreadableFile]:
    for member in iterate_tar_members(stream):
        budget.subtract_member(name)
        if member is None or not _may_be_log_file_name(member.name.removeprefix("./")):
            continue
        inner = _member_display_path(name, member.name)
        if member.is_sparse:
            yield UnreadableFile(inner, "sparse files in a tar are not supported; pack it without --sparse")
        else:
            yield from _find_logs_in_stream(inner, member, budget.subtract_data, budget, remaining_depth)


def _member_display_path(archive_name: str, member_name: str) -> str:
    if len(member_name) > MAX_MEMBER_NAME_CHARACTERS:
        member_name = f"…{member_name[-MAX_MEMBER_NAME_CHARACTERS:]}"
    return f"{archive_name}: {make_printable(member_name)}"


_Unpacker = Callable[
    [str, "BufferedReader[_DamageTolerantStream]", UnpackBudget, int], Iterator[LogSource | UnreadableFile]
]
_UNPACKERS_BY_FORMAT: dict[str, _Unpacker] = {
    **{
        archive_format: partial(_find_logs_in_compressed_file, archive_format)
        for archive_format in DECOMPRESSOR_BY_FORMAT
    },
    "zip": _find_logs_in_zip,
    "tar": _find_logs_in_tar,
}
