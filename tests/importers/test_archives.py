"""Which logs files, folders and archives hold, and what archives cannot ask for."""

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
from vnetbench.importers.archives import UnpackBudget, LogSource, UnreadableFile, find_logs

pytestmark = pytest.mark.pure

TEXT = b"toy 1.2\n= 800 Mbit/s 10.0 s\n"


def held(*paths: Path, budget: UnpackBudget | None = None) -> dict[str, bytes | str]:
    """Name to content, or to why there is none."""
    found: dict[str, bytes | str] = {}
    for log in find_logs(paths, budget):
        name = log.name.removeprefix(f"{paths[0].parent}/")
        if isinstance(log, UnreadableFile):
            found[name] = log.reason
            continue
        content = b""
        while piece := log.stream.read(1000):
            content += piece
        found[name] = log.damage or content
    return found


def zipped(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def tarred(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def test_a_folder_gives_its_logs_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for name in ("b.txt", "a/run.log", ".hidden", "before.vnb", "chart.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(TEXT)

    assert held(folder) == {"results/a/run.log": TEXT, "results/b.txt": TEXT}


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_packed_log_is_unpacked_whatever_its_name(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "run.log"
    path.write_bytes(pack(TEXT))

    assert held(path) == {"run.log": TEXT}


def test_archives_in_archives_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    path.write_bytes(zipped({"host1.tar.gz": gzip.compress(tarred({"a.log": TEXT})), "b.log": TEXT}))

    assert held(path) == {"all.zip: b.log": TEXT, "all.zip: host1.tar.gz: a.log": TEXT}


def test_paths_in_archives_are_only_names(tmp_path: Path) -> None:
    path = tmp_path / "evil.tar"
    path.write_bytes(tarred({"../../etc/passwd": TEXT, "/root/x.log": TEXT, "a\x1b[31m.log": TEXT}))

    names = list(held(path))
    assert names == [
        "evil.tar: ../../etc/passwd",
        "evil.tar: /root/x.log",
        "evil.tar: a\N{REPLACEMENT CHARACTER}[31m.log",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["evil.tar"]


def test_links_and_devices_of_an_archive_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"member-{kind.decode()}")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)

    assert held(path) == {}


def test_a_bomb_is_refused_when_the_budget_is_used_up(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))

    with pytest.raises(BenchError, match="unpack to more than"):
        held(path, budget=UnpackBudget(bytes=1_000_000))


def test_many_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    path.write_bytes(zipped({f"{number}.log": TEXT for number in range(12)}))

    with pytest.raises(BenchError, match="logs"):
        held(path, budget=UnpackBudget(logs=10))


def test_archives_nested_too_deep_are_said(tmp_path: Path) -> None:
    content = TEXT
    for level in range(6):
        content = zipped({f"{level}.zip" if level else "a.log": content})
    path = tmp_path / "deep.zip"
    path.write_bytes(content)

    (why,) = held(path).values()
    assert "deep in one another" in str(why)


@pytest.mark.parametrize("name", ["run.log.gz", "all.zip", "all.tar.xz"])
def test_a_damaged_archive_is_said_and_does_no_harm(tmp_path: Path, name: str) -> None:
    content = TEXT * 10_000 + bytes(range(256)) * 100
    whole = {
        "run.log.gz": gzip.compress(content),
        "all.zip": zipped({"a.log": content, "b.log": content}),
        "all.tar.xz": lzma.compress(tarred({"a.log": content})),
    }[name]
    path = tmp_path / name
    for cut in (20, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:cut])
        assert any("damaged" in str(why) for why in held(path).values()), cut


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"nothing\.log.*No such file"):
        held(tmp_path / "nothing.log")


def test_a_workbook_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "table.xlsx"
    path.write_bytes(zipped({"xl/workbook.xml": TEXT}))

    (log,) = find_logs([path])
    assert isinstance(log, LogSource)
    assert log.name == str(path)
