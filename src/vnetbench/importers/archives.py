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

MAX_DEPTH = 3
"""Nesting depth of archives. `logs.zip` with `host.tar.gz` in it has depth 3, because the tar is
compressed."""
MAX_LOGS = 20_000
MAX_BYTES = 4 * 2**30
"""Bytes that all archives of one import may unpack to."""

_BUFFER_BYTES = 2**16
_MAX_IN_MEMORY_BYTES = 2**24
_MAGIC_NUMBERS: tuple[tuple[int, bytes, str], ...] = (
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
_TABLE_SUFFIXES = (".xlsx",)
"""Files that are a zip by their bytes, but not an archive."""
_UNPACK_ERRORS = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
    NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
"""Exceptions from unpacking a damaged, encrypted or invalid archive."""


@dataclass
class UnpackBudget:
    """What archives may still unpack to."""

    bytes: int = MAX_BYTES
    logs: int = MAX_LOGS

    def charge(self, name: str, size: int) -> None:
        """Subtract bytes that were unpacked. Raises BenchError if the budget is exhausted."""
        self.bytes -= size
        if self.bytes < 0:
            raise BenchError(
                f"the archives unpack to more than {MAX_BYTES >> 30} GiB",
                where=name,
                fix="unpack the logs that you need and import those",
            )


class _CountedStream(RawIOBase):
    """A stream that ends where its data is damaged, and reports every read to a callback."""

    def __init__(self, stream: ByteStream, name: str, on_read: Callable[[str, int], None]) -> None:
        self._stream, self._name, self._on_read = stream, name, on_read
        self.damage = ""
        self.digest = blake2b(digest_size=16)

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer. Raises BenchError if the archives unpack to too much."""
        try:
            data = self._stream.read(len(into))
        except _UNPACK_ERRORS as error:
            self.damage = self.damage or f"the file is damaged; the rest is not read ({str(error)[:200]})"
            return 0
        self._on_read(self._name, len(data))
        self.digest.update(data)
        into[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class LogSource:
    """A log that can be read once, before the next one is requested."""

    name: str
    """The path, followed by the path in an archive: `logs.zip: host1/run.txt`."""
    stream: ByteStream
    _raw: _CountedStream

    @property
    def damage(self) -> str:
        """Why the log ended early, once it is read; empty if it did not."""
        return self._raw.damage

    @property
    def digest(self) -> bytes:
        """Digest of the bytes, once the log is read. A copy has the same."""
        return self._raw.digest.digest()


@dataclass(frozen=True)
class UnreadableFile:
    """A file, or a member of an archive, that cannot be read at all."""

    name: str
    reason: str


def find_logs(
    paths: Sequence[Path], budget: UnpackBudget | None = None, read: Callable[[int], None] = lambda size: None
) -> Iterator[LogSource | UnreadableFile]:
    """Yield the logs of files, folders and archives, in the order of the paths and then of the names.

    Args:
        paths: Files and folders.
        budget: Limits for archives.
        read: Called with the number of bytes of every piece of the files.

    Raises:
        BenchError: A path cannot be read, or archives exceed the budget.
    """
    budget = budget or UnpackBudget()
    for path in paths:
        for file in _list_files(path) if path.is_dir() else [path]:
            name = make_printable(str(file))
            try:
                stream = file.open("rb")
            except OSError as error:
                if path.is_dir():
                    yield UnreadableFile(name, f"cannot read the file: {error.strerror}")
                    continue
                fix = "specify a log, a folder of logs or an archive"
                raise BenchError(f"cannot read the file: {error.strerror}", where=name, fix=fix) from error
            with stream:
                yield from _open_stream(name, stream, lambda _, size: read(size), budget, MAX_DEPTH)


def total_bytes(paths: Sequence[Path]) -> int:
    """Return the size of all files under these paths, compressed as they are."""
    files = (file for path in paths for file in (_list_files(path) if path.is_dir() else [path]))
    return sum(file.stat().st_size for file in files if file.is_file())


def _list_files(folder: Path) -> list[Path]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if _is_log_name(path.relative_to(folder).as_posix())]


def _is_log_name(name: str) -> bool:
    parts = (part for part in name.split("/") if part not in (".", ".."))
    is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return not is_hidden and Path(name).suffix.lower() not in _IGNORED_SUFFIXES


def _open_stream(
    name: str, stream: ByteStream, on_read: Callable[[str, int], None], budget: UnpackBudget, depth: int
) -> Iterator[LogSource | UnreadableFile]:
    """Yield the logs that a stream is or contains.

    `on_read` gets its name and the number of bytes of each read.
    """
    raw = _CountedStream(stream, name, on_read)
    reader = BufferedReader(raw, _BUFFER_BYTES)
    head = reader.peek(_BUFFER_BYTES)
    archive_format = next(
        (
            archive_format
            for at, begin, archive_format in _MAGIC_NUMBERS
            if head[at : at + len(begin)] == begin
        ),
        None,
    )
    if archive_format is None or name.lower().endswith(_TABLE_SUFFIXES):
        budget.logs -= 1
        if budget.logs < 0:
            raise BenchError(
                f"there are more than {MAX_LOGS} logs", where=name, fix="import fewer of them at once"
            )
        yield LogSource(name, reader, raw)
    elif depth == 0:
        yield UnreadableFile(name, f"archives are nested more than {MAX_DEPTH} levels deep")
    else:
        try:
            yield from _UNPACKERS[archive_format](name, reader, budget, depth - 1)
        except _UNPACK_ERRORS as error:
            yield UnreadableFile(name, f"the archive is damaged or unsupported ({str(error)[:200]})")


def _single_file_format(unpack: Callable[[BufferedReader[_CountedStream]], ByteStream]) -> _Unpacker:
    """Return the unpacker of a format that compresses one file."""

    def members(
        name: str, stream: BufferedReader[_CountedStream], budget: UnpackBudget, depth: int
    ) -> Iterator[LogSource | UnreadableFile]:
        yield from _open_stream(name, unpack(stream), budget.charge, budget, depth)

    return members


def _read_zip(
    name: str, stream: BufferedReader[_CountedStream], budget: UnpackBudget, depth: int
) -> Iterator[LogSource | UnreadableFile]:
    # The list of members is at the end of a zip, and not every stream can seek there.
    with SpooledTemporaryFile(_MAX_IN_MEMORY_BYTES) as whole:
        shutil.copyfileobj(stream, whole, _BUFFER_BYTES)
        with zipfile.ZipFile(whole) as archive:
            logs = [
                member
                for member in archive.infolist()
                if not member.is_dir() and _is_log_name(member.filename)
            ]
            for member in sorted(logs, key=lambda member: member.filename):
                inner = f"{name}: {make_printable(member.filename)}"
                with archive.open(member) as packed:
                    yield from _open_stream(inner, packed, budget.charge, budget, depth)


def _read_tar(
    name: str, stream: BufferedReader[_CountedStream], budget: UnpackBudget, depth: int
) -> Iterator[LogSource | UnreadableFile]:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            packed = archive.extractfile(member) if member.isreg() else None
            if packed is not None and _is_log_name(member.name.removeprefix("./")):
                yield from _open_stream(
                    f"{name}: {make_printable(member.name)}", packed, budget.charge, budget, depth
                )


_Unpacker = Callable[
    [str, "BufferedReader[_CountedStream]", UnpackBudget, int], Iterator[LogSource | UnreadableFile]
]
_UNPACKERS: dict[str, _Unpacker] = {
    "gz": _single_file_format(lambda stream: gzip.GzipFile(fileobj=stream)),
    "xz": _single_file_format(lzma.LZMAFile),
    "bz2": _single_file_format(bz2.BZ2File),
    "zip": _read_zip,
    "tar": _read_tar,
}
