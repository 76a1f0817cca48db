"""Find the logs in files, folders and archives, and enforce the limits for archives."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.importers.archives import LogSource, UnreadableFile, find_logs
from vnetbench.importers.unpack_budget import UnpackBudget

pytestmark = pytest.mark.pure

TEXT = b"toy 1.2\n= 800 Mbit/s 10.0 s\n"


def read_logs(*paths: Path, budget: UnpackBudget | None = None) -> dict[str, bytes | str]:
    """Return the content of each log by name, or the reason why it has none."""
    contents: dict[str, bytes | str] = {}
    for log in find_logs(paths, budget):
        name = log.display_path.removeprefix(f"{paths[0].parent}/")
        if isinstance(log, UnreadableFile):
            contents[name] = log.reason
            continue
        content = b""
        while piece := log.stream.read(1000):
            content += piece
        contents[name] = log.damage_description or content
    return contents


def make_zip(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def make_tar(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def test_the_logs_of_a_folder_are_sorted_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for name in ("b.txt", "a/run.log", ".hidden", "before.vnb", "chart.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(TEXT)

    assert read_logs(folder) == {"results/a/run.log": TEXT, "results/b.txt": TEXT}


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_compressed_log_is_unpacked_whatever_its_name(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "run.log"
    path.write_bytes(pack(TEXT))

    assert read_logs(path) == {"run.log": TEXT}


def test_nested_archives_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    path.write_bytes(make_zip({"host1.tar.gz": gzip.compress(make_tar({"a.log": TEXT})), "b.log": TEXT}))

    assert read_logs(path) == {"all.zip: b.log": TEXT, "all.zip: host1.tar.gz: a.log": TEXT}


def test_paths_in_archives_are_only_labels(tmp_path: Path) -> None:
    path = tmp_path / "evil.tar"
    path.write_bytes(make_tar({"../../etc/passwd": TEXT, "/root/x.log": TEXT, "a\x1b[31m.log": TEXT}))

    names = list(read_logs(path))
    assert names == [
        "evil.tar: ../../etc/passwd",
        "evil.tar: /root/x.log",
        "evil.tar: a\N{REPLACEMENT CHARACTER}[31m.log",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["evil.tar"]


def test_links_and_devices_in_an_archive_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"member-{kind.decode()}")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)

    assert read_logs(path) == {}


def test_a_decompression_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))

    with pytest.raises(BenchError, match="unpack to more than"):
        read_logs(path, budget=UnpackBudget(remaining_bytes=1_000_000))


def test_too_many_lines_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "blank.gz"
    for newline in (b"\n", b"\r", b"\r\n"):
        path.write_bytes(gzip.compress(newline * 1_000))
        assert read_logs(path, budget=UnpackBudget(remaining_lines=1_000)) == {"blank.gz": newline * 1_000}
        with pytest.raises(BenchError, match="lines"):
            read_logs(path, budget=UnpackBudget(remaining_lines=999))


@pytest.mark.parametrize("pack", [make_zip, make_tar])
def test_too_many_files_that_are_no_logs_are_refused(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "pictures"
    path.write_bytes(pack({f"{number}.png": TEXT for number in range(12)}))

    assert read_logs(path) == {}
    with pytest.raises(BenchError, match="files and folders"):
        read_logs(path, budget=UnpackBudget(remaining_members=10))


def test_an_unsupported_member_does_not_hide_the_others(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.log", TEXT, zipfile.ZIP_BZIP2)
        archive.writestr("b.log", TEXT, zipfile.ZIP_DEFLATED)
    path = tmp_path / "mixed.zip"
    path.write_bytes(out.getvalue())

    contents = read_logs(path)
    assert "deflate" in str(contents["mixed.zip: a.log"])
    assert contents["mixed.zip: b.log"] == TEXT


@pytest.mark.parametrize("tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_of_each_format_is_read(tmp_path: Path, tar_format: int) -> None:
    names = ["a.log", f"{'folder/' * 12}{'n' * 90}.log"]
    if tar_format != tarfile.USTAR_FORMAT:
        names.append(f"{'ä' * 80}/{'n' * 200}.log")
    path = tmp_path / "logs.tar"
    with tarfile.open(path, "w", format=tar_format) as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(TEXT), 1_700_000_000.5
            archive.addfile(member, io.BytesIO(TEXT))

    assert read_logs(path) == {f"logs.tar: {name}": TEXT for name in names}


def test_concatenated_and_padded_compressed_files_are_one_log(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    for pack in (gzip.compress, bz2.compress, lzma.compress):
        path.write_bytes(pack(TEXT) + pack(TEXT) + b"\0" * 512)
        assert read_logs(path) == {"run.log": TEXT * 2}


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    path.write_bytes(make_zip({f"{number}.log": TEXT for number in range(12)}))

    with pytest.raises(BenchError, match="logs"):
        read_logs(path, budget=UnpackBudget(remaining_logs=10))


def test_archives_nested_too_deep_are_reported(tmp_path: Path) -> None:
    content = TEXT
    for level in range(6):
        content = make_zip({f"{level}.zip" if level else "a.log": content})
    path = tmp_path / "deep.zip"
    path.write_bytes(content)

    (reason,) = read_logs(path).values()
    assert "nested more than" in str(reason)


@pytest.mark.parametrize("name", ["run.log.gz", "all.zip", "all.tar.xz"])
def test_a_damaged_archive_is_reported(tmp_path: Path, name: str) -> None:
    content = TEXT * 10_000 + bytes(range(256)) * 100
    archive = {
        "run.log.gz": gzip.compress(content),
        "all.zip": make_zip({"a.log": content, "b.log": content}),
        "all.tar.xz": lzma.compress(make_tar({"a.log": content})),
    }[name]
    path = tmp_path / name
    for cut in (20, len(archive) // 2, len(archive) - 3):
        path.write_bytes(archive[:cut])
        assert any("damaged" in str(reason) for reason in read_logs(path).values()), cut


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"nothing\.log.*No such file"):
        read_logs(tmp_path / "nothing.log")


def test_a_workbook_is_not_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "table.xlsx"
    path.write_bytes(make_zip({"xl/workbook.xml": TEXT}))

    (log,) = find_logs([path])
    assert isinstance(log, LogSource)
    assert log.display_path == str(path)
