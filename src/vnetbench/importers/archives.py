"""The logs that paths mean: files, folders, archives, and what is packed in them.

Nothing is unpacked to disk under a name of the archive's: a member's path is only its name: it leads nowhere.
What a hostile archive can ask for is bounded: how deep archives stand in archives, how many logs come out of
them, and how many bytes.
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
"""Of archives in archives: `logs.zip` with `host.tar.gz` in it is three, as the tar is packed once more."""
MAX_LOGS = 20_000
MAX_BYTES = 4 * 2**30
"""That all archives of one import unpack to."""

_BUFFER = 2**16
_IN_MEMORY = 2**24
_BEGINNINGS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "zip"),
    (0, b"\x1f\x8b", "gz"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"BZh", "bz2"),
    (257, b"ustar", "tar"),
)
"""Where in a file, and by which bytes, what it is can be told: names lie."""
_NOT_LOGS = {
    ".vnb", ".html", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".docx", ".exe", ".dll", ".toml",
    ".py", ".sh", ".ps1", ".bat", ".md",
}  # fmt: skip
"""Endings of files that stand beside logs, and are passed over in folders and archives."""
_TABLES = (".xlsx",)
"""A zip by its bytes, and yet no archive."""
_DAMAGED = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
    NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
"""What unpacking raises where an archive is damaged, encrypted, or none."""


@dataclass
class UnpackBudget:
    """What archives may still unpack to."""

    bytes: int = MAX_BYTES
    logs: int = MAX_LOGS

    def charge(self, name: str, size: int) -> None:
        """Take so many bytes of it. Raises BenchError where it is used up."""
        self.bytes -= size
        if self.bytes < 0:
            raise BenchError(
                f"the archives unpack to more than {MAX_BYTES >> 30} GiB",
                where=name,
                fix="unpack what is needed of them and import that",
            )


class _Unpacked(RawIOBase):
    """A stream that ends where it is damaged, and takes what it gives from a budget."""

    def __init__(self, stream: ByteStream, name: str, took: Callable[[str, int], None]) -> None:
        self._stream, self._name, self._took = stream, name, took
        self.damage = ""
        self.digest = blake2b(digest_size=16)

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        """As of any raw stream. Raises BenchError where the archives unpack to too much."""
        try:
            data = self._stream.read(len(into))
        except _DAMAGED as error:
            self.damage = self.damage or f"damaged here, and not read further ({str(error)[:200]})"
            return 0
        self._took(self._name, len(data))
        self.digest.update(data)
        into[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class LogSource:
    """A log that can be read, once, until the next one is asked for."""

    name: str
    """Its path, and behind it that in its archive: `logs.zip: host1/run.txt`."""
    stream: ByteStream
    _raw: _Unpacked

    @property
    def damage(self) -> str:
        """Why it ended where it did, once it is read; empty where that is its end."""
        return self._raw.damage

    @property
    def digest(self) -> bytes:
        """Of its bytes, once it is read: a copy has the same."""
        return self._raw.digest.digest()


@dataclass(frozen=True)
class UnreadableFile:
    """A file, or a member of an archive, of which nothing can be read."""

    name: str
    reason: str


def find_logs(
    paths: Sequence[Path], budget: UnpackBudget | None = None, read: Callable[[int], None] = lambda size: None
) -> Iterator[LogSource | UnreadableFile]:
    """The logs of files, folders and archives, in the order of the paths, below them in that of the names.

    `read` is told of every piece of the files how many bytes it has. Raises BenchError for a path that cannot
    be read and where archives ask for too much.
    """
    budget = budget or UnpackBudget()
    for path in paths:
        for file in _files(path) if path.is_dir() else [path]:
            name = make_printable(str(file))
            try:
                stream = file.open("rb")
            except OSError as error:
                if path.is_dir():
                    yield UnreadableFile(name, f"it cannot be read: {error.strerror}")
                    continue
                fix = "name a log, a folder of logs or an archive"
                raise BenchError(f"it cannot be read: {error.strerror}", where=name, fix=fix) from error
            with stream:
                yield from _of(name, stream, lambda _, size: read(size), budget, MAX_DEPTH)


def total_bytes(paths: Sequence[Path]) -> int:
    """Bytes of all files that the paths mean, packed as they are."""
    files = (file for path in paths for file in (_files(path) if path.is_dir() else [path]))
    return sum(file.stat().st_size for file in files if file.is_file())


def _files(folder: Path) -> list[Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in found if _may_be_log(path.relative_to(folder).as_posix())]


def _may_be_log(name: str) -> bool:
    parts = (part for part in name.split("/") if part not in (".", ".."))
    is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return not is_hidden and Path(name).suffix.lower() not in _NOT_LOGS


def _of(
    name: str, stream: ByteStream, took: Callable[[str, int], None], budget: UnpackBudget, depth: int
) -> Iterator[LogSource | UnreadableFile]:
    """What a stream is or holds; `took` is told its name and how many bytes were read of it."""
    raw = _Unpacked(stream, name, took)
    reader = BufferedReader(raw, _BUFFER)
    head = reader.peek(_BUFFER)
    kind = next((kind for at, begin, kind in _BEGINNINGS if head[at : at + len(begin)] == begin), None)
    if kind is None or name.lower().endswith(_TABLES):
        budget.logs -= 1
        if budget.logs < 0:
            raise BenchError(f"more than {MAX_LOGS} logs", where=name, fix="import fewer of them at once")
        yield LogSource(name, reader, raw)
    elif depth == 0:
        yield UnreadableFile(name, f"archives stand more than {MAX_DEPTH} deep in one another")
    else:
        try:
            yield from _OPENED[kind](name, reader, budget, depth - 1)
        except _DAMAGED as error:
            yield UnreadableFile(name, f"a damaged archive, or one that cannot be read ({str(error)[:200]})")


def _packed(opened: Callable[[BufferedReader[_Unpacked]], ByteStream]) -> _Open:
    """Of a form that packs one file."""

    def members(
        name: str, stream: BufferedReader[_Unpacked], budget: UnpackBudget, depth: int
    ) -> Iterator[LogSource | UnreadableFile]:
        yield from _of(name, opened(stream), budget.charge, budget, depth)

    return members


def _zip(
    name: str, stream: BufferedReader[_Unpacked], budget: UnpackBudget, depth: int
) -> Iterator[LogSource | UnreadableFile]:
    # Its list of members is at its end, and not every stream can be read from there.
    with SpooledTemporaryFile(_IN_MEMORY) as whole:
        shutil.copyfileobj(stream, whole, _BUFFER)
        with zipfile.ZipFile(whole) as archive:
            logs = [each for each in archive.infolist() if not each.is_dir() and _may_be_log(each.filename)]
            for member in sorted(logs, key=lambda each: each.filename):
                inner = f"{name}: {make_printable(member.filename)}"
                with archive.open(member) as packed:
                    yield from _of(inner, packed, budget.charge, budget, depth)


def _tar(
    name: str, stream: BufferedReader[_Unpacked], budget: UnpackBudget, depth: int
) -> Iterator[LogSource | UnreadableFile]:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            packed = archive.extractfile(member) if member.isreg() else None
            if packed is not None and _may_be_log(member.name.removeprefix("./")):
                yield from _of(f"{name}: {make_printable(member.name)}", packed, budget.charge, budget, depth)


_Open = Callable[[str, "BufferedReader[_Unpacked]", UnpackBudget, int], Iterator[LogSource | UnreadableFile]]
_OPENED: dict[str, _Open] = {
    "gz": _packed(lambda stream: gzip.GzipFile(fileobj=stream)),
    "xz": _packed(lzma.LZMAFile),
    "bz2": _packed(bz2.BZ2File),
    "zip": _zip,
    "tar": _tar,
}
