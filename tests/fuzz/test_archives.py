"""Fuzz the readers of archives: each archive is imported or refused, within bounds of memory and time."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.foreign_files import apply_edits, check_import, corpus_files, edits
from tests.importers.hostile_archives import make_tar, make_tar_header, make_zip

pytestmark = pytest.mark.pure

_LOGS = Path(__file__).parents[1] / "data" / "logs"
_LOG = (_LOGS / "ethr" / "latency.log").read_bytes()
_PAX = b"18 path=run.log12\n"
_TAR = make_tar(
    (make_tar_header("name", 8, tarfile.GNUTYPE_LONGNAME), b"run.log\0"),
    (make_tar_header("a.log", len(_LOG)), _LOG),
    (make_tar_header("header", len(_PAX), tarfile.XHDTYPE), _PAX),
    (make_tar_header("b.log", len(_LOG)), _LOG),
    (make_tar_header("folder", 0, tarfile.DIRTYPE), b""),
)
_SEEDS = (
    _TAR,
    make_zip({"a.log": _LOG, "b.txt": b"nothing"}),
    make_zip({"a.log": _LOG}, zipfile.ZIP_STORED),
    make_zip({"a.log": _LOG}, zipfile.ZIP_BZIP2),
    make_zip({"a.tar.gz": gzip.compress(_TAR)}),
    gzip.compress(_LOG) * 2,
    bz2.compress(_LOG),
    lzma.compress(_LOG),
)
_PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "plain": lambda content: content,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lambda content: lzma.compress(content, preset=0),
    "zip": lambda content: make_zip({"inner": content}),
    "tar": lambda content: make_tar((make_tar_header("inner", len(content)), content)),
}


@pytest.mark.parametrize("path", corpus_files("archives"), ids=lambda path: path.name)
def test_a_kept_archive_is_imported_or_refused(path: Path) -> None:
    check_import(path)


@given(st.sampled_from(_SEEDS), edits(), st.lists(st.sampled_from(sorted(_PACKERS)), max_size=2))
def test_any_archive_is_imported_or_refused(
    seed: bytes, changes: list[tuple[int, int, bytes]], packers: list[str]
) -> None:
    content = apply_edits(seed, changes)
    for name in packers:
        content = _PACKERS[name](content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive"
        path.write_bytes(content)
        check_import(path)


@given(st.binary(max_size=2000), st.sampled_from((b"PK\3\4", b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"BZh9")))
def test_any_bytes_behind_a_signature_are_imported_or_refused(content: bytes, signature: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive"
        path.write_bytes(signature + content)
        check_import(path)
