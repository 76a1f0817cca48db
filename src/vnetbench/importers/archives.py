"""Find the logs in files, folders, archives, and archives within them.

No member is unpacked to disk under its name: its path is only a label. Limits protect against hostile
archives: nesting depth, number of logs, and number of bytes.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BufferedReader, RawIOBase
from pathlib import Path
from tempfile import SpooledTemporaryFile

from vnetbench.errors import BenchError
from vnetbench.importers.decoding import ByteStream
from vnetbench.printable import make_printable

MAX_ARCHIVE_DEPTH = 3
"""Nesting depth of archives. `logs.zip` with `host.tar.gz` in it has depth 3, because the tar is
compressed."""
MAX_LOGS_PER_IMPORT = 20_000
MAX_UNPACKED_BYTES = 4 * 2**30
"""Bytes that all archives of one import may unpack to."""

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


@dataclass
class UnpackBudget:
    """What archives may still unpack to."""

    remaining_bytes: int = MAX_UNPACKED_BYTES
    remaining_logs: int = MAX_LOGS_PER_IMPORT

    def subtract_bytes(self, archive_name: str, unpacked_bytes: int) -> None:
        """Subtract bytes that were unpacked. Raises BenchError if the budget is exhausted."""
        self.remaining_bytes -= unpacked_bytes
        if self.remaining_bytes < 0:
            raise BenchError(
                f"the archives unpack to more than {MAX_UNPACKED_BYTES >> 30} GiB",
                where=archive_name,
                fix="unpack the archives, and import only the logs that you need",
            )


class _DamageTolerantStream(RawIOBase):
    """A stream that ends where its data is damaged, and reports every read to a callback."""

    def __init__(self, stream: ByteStream, name: str, on_read: Callable[[str, int], None]) -> None:
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
        self._on_read(self._name, len(data))
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
                    name, stream, lambda _, size: on_read_bytes(size), budget, MAX_ARCHIVE_DEPTH
                )


def total_file_bytes(paths: Sequence[Path]) -> int:
    """Return the size of all files under these paths, compressed as they are."""
    files = (file for path in paths for file in (_list_log_files(path) if path.is_dir() else [path]))
    return sum(file.stat().st_size for file in files if file.is_file())


def _list_log_files(folder: Path) -> list[Path]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if _is_log_file_name(path.relative_to(folder).as_posix())]


def _is_log_file_name(name: str) -> bool:
    parts = (part for part in name.split("/") if part not in (".", ".."))
    is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return not is_hidden and Path(name).suffix.lower() not in _IGNORED_SUFFIXES


def _find_logs_in_stream(
    name: str,
    stream: ByteStream,
    on_read: Callable[[str, int], None],
    budget: UnpackBudget,
    remaining_depth: int,
) -> Iterator[LogSource | UnreadableFile]:
    """Yield the logs that a stream is or contains.

    `on_read` gets its name and the number of bytes of each read.
    """
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
        budget.remaining_logs -= 1
        if budget.remaining_logs < 0:
            raise BenchError(
                f"there are more than {MAX_LOGS_PER_IMPORT} logs", where=name, fix="import fewer logs at once"
            )
        yield LogSource(name, reader, raw)
    elif remaining_depth == 0:
        yield UnreadableFile(name, f"archives are nested more than {MAX_ARCHIVE_DEPTH} levels deep")
    else:
        try:
            yield from _UNPACKERS_BY_FORMAT[archive_format](name, reader, budget, remaining_depth - 1)
        except _UNPACK_ERRORS as error:
            yield UnreadableFile(name, f"the archive is damaged or unsupported ({str(error)[:200]})")


def _make_single_file_unpacker(
    open_unpacked: Callable[[BufferedReader[_DamageTolerantStream]], ByteStream],
) -> _Unpacker:
    """Return the unpacker of a format that compresses one file."""

    def members(
        name: str, stream: BufferedReader[_DamageTolerantStream], budget: UnpackBudget, depth: int
    ) -> Iterator[LogSource | UnreadableFile]:
        yield from _find_logs_in_stream(name, open_unpacked(stream), budget.subtract_bytes, budget, depth)

    return members


def _find_logs_in_zip(
    name: str, stream: BufferedReader[_DamageTolerantStream], budget: UnpackBudget, remaining_depth: int
) -> Iterator[LogSource | UnreadableFile]:
    # The list of members is at the end of a zip, and not every stream can seek there.
    with SpooledTemporaryFile(_SPOOL_TO_DISK_ABOVE_BYTES) as whole:
        shutil.copyfileobj(stream, whole, _READ_BUFFER_BYTES)
        with zipfile.ZipFile(whole) as archive:
            logs = [
                member
                for member in archive.infolist()
                if not member.is_dir() and _is_log_file_name(member.filename)
            ]
            for member in sorted(logs, key=lambda member: member.filename):
                inner = f"{name}: {make_printable(member.filename)}"
                with archive.open(member) as packed:
                    yield from _find_logs_in_stream(
                        inner, packed, budget.subtract_bytes, budget, remaining_depth
                    )


def _find_logs_in_tar(
    name: str, stream: BufferedReader[_DamageTolerantStream], budget: UnpackBudget, remaining_depth: int
) -> Iterator[LogSource | UnreadableFile]:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            packed = archive.extractfile(member) if member.isreg() else None
            if packed is not None and _is_log_file_name(member.name.removeprefix("./")):
                yield from _find_logs_in_stream(
                    f"{name}: {make_printable(member.name)}",
                    packed,
                    budget.subtract_bytes,
                    budget,
                    remaining_depth,
                )


_Unpacker = Callable[
    [str, "BufferedReader[_DamageTolerantStream]", UnpackBudget, int], Iterator[LogSource | UnreadableFile]
]
_UNPACKERS_BY_FORMAT: dict[str, _Unpacker] = {
    "gz": _make_single_file_unpacker(lambda stream: gzip.GzipFile(fileobj=stream)),
    "xz": _make_single_file_unpacker(lzma.LZMAFile),
    "bz2": _make_single_file_unpacker(bz2.BZ2File),
    "zip": _find_logs_in_zip,
    "tar": _find_logs_in_tar,
}
