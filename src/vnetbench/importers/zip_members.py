"""Open zip files with bounded memory, whatever sizes they say they have."""

from __future__ import annotations

import zipfile
from typing import IO

MAX_DIRECTORY_BYTES = 2**23
"""Longest list of members. 20,000 members with paths of 300 characters need as much."""
_SUPPORTED_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class _ZipFileWithDirectoryLimit:
    """A file of which no read returns more than the longest list of members has."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.seekable = file.seek, file.seekable
        self.tell = file.tell  # codespell:ignore tell  `zipfile` calls it

    def read(self, size: int = -1) -> bytes:
        """Read as a file does. Raises zipfile.BadZipFile if the list of members is too long."""
        data = self._file.read(size if 0 <= size <= MAX_DIRECTORY_BYTES else MAX_DIRECTORY_BYTES + 1)
        if len(data) > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its list of members has more than {MAX_DIRECTORY_BYTES >> 20} MiB")
        return data


def open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip file to read its members.

    Raises:
        zipfile.BadZipFile: It is damaged, or its list of members is too long.
    """
    return zipfile.ZipFile(_ZipFileWithDirectoryLimit(file))


def list_non_folder_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the members that are not folders, in the order of the archive. A name may be empty."""
    # Before Python 3.12, ZipInfo.is_dir() raises IndexError for an empty name.
    return [member for member in archive.infolist() if not member.filename.endswith("/")]


def open_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member. Its reads return at most the requested size, and need not much more memory.

    Raises:
        NotImplementedError: Its compression is not one that Python unpacks in small pieces.
        RuntimeError: It is encrypted.
    """
    if member.compress_type not in _SUPPORTED_COMPRESSIONS:
        raise NotImplementedError(
            f"its compression method {member.compress_type} is not supported; pack the zip with deflate"
        )
    return archive.open(member)
