"""Tests of the guests' cache: atomic creation, and the size limit."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.guest import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_an_interrupted_creation_leaves_nothing() -> None:
    path = cache.cache_subfolder("snapshots") / "x.state"
    with pytest.raises(KeyboardInterrupt), cache.create_atomically(path) as temporary:
        temporary.write_bytes(b"half")
        raise KeyboardInterrupt
    assert list(cache.cache_subfolder("snapshots").iterdir()) == []


def test_simultaneous_creations_of_a_folder_leave_one_complete_folder() -> None:
    path = cache.cache_subfolder("kernels") / "linux"

    def make(number: int) -> None:
        with cache.create_atomically(path) as temporary:
            temporary.mkdir()
            (temporary / "first").write_text(str(number))
            time.sleep(0.01)
            (temporary / "second").write_text(str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(8)))
    assert (path / "first").read_text() == (path / "second").read_text()
    assert [p.name for p in cache.cache_subfolder("kernels").iterdir()] == ["linux"]


def test_prune_removes_the_least_recently_used_and_abandoned_files() -> None:
    folder = cache.cache_subfolder("snapshots")
    for age, name in enumerate(("new", "middle", "old")):
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (time.time() - age, time.time() - age))
    abandoned = folder / ".making-0123"
    abandoned.write_bytes(bytes(100))
    os.utime(abandoned, (0, 0))
    (folder / ".making-4567").write_bytes(bytes(100))
    cache.remove_least_recently_used("snapshots", 300)
    assert {p.name for p in folder.iterdir()} == {"new", "middle", ".making-4567"}


def test_a_folder_that_is_not_writable_is_named_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BenchError, match="cannot cache what guests need") as refused:
        cache.cache_subfolder("kernels")
    assert "XDG_CACHE_HOME" in str(refused.value.fix)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("level", ["snapshots", "guests", "vnetbench"])
def test_a_cache_of_another_user_is_not_trusted(level: str) -> None:
    folder = cache.cache_subfolder("snapshots")
    changed = next(each for each in (folder, *folder.parents) if each.name == level)
    os.chown(changed, 12345, 12345)
    with pytest.raises(BenchError, match="belongs to the user 12345") as refused:
        cache.cache_subfolder("snapshots")
    assert "XDG_CACHE_HOME" in str(refused.value.fix)


def test_a_cache_that_others_can_write_to_is_not_trusted() -> None:
    folder = cache.cache_subfolder("kernels")
    folder.chmod(0o777)
    with pytest.raises(BenchError, match="other users can write"):
        cache.cache_subfolder("kernels")
