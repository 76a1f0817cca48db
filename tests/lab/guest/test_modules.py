"""Tests of a kernel's modules: found, unpacked, and put in loading order."""

from __future__ import annotations

import gzip
import lzma
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.guest.modules import KernelModules, parse_dependencies, read_module


def build_module(*needed: str) -> bytes:
    """Return a 64-bit ELF file with only a section .modinfo that names these dependencies."""
    info = b"license=GPL\0depends=" + ",".join(needed).encode() + b"\0name=x\0"
    names = b"\0.modinfo\0.shstrtab\0"
    body = info + names
    header_bytes, section_bytes = 64, 64
    begin = header_bytes + len(body)
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, begin, 0, 64, 0, 0, 64, 3, 2)
    )

    def section(name: int, offset: int, size: int) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, offset, size, 0, 0, 1, 0)

    sections = (
        bytes(section_bytes)
        + section(1, header_bytes, len(info))
        + section(10, header_bytes + len(info), len(names))
    )
    return head + body + sections


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kernel = tmp_path / "kernel/drivers"
    kernel.mkdir(parents=True)
    (kernel / "virtio.ko").write_bytes(build_module())
    (kernel / "virtio-ring.ko.xz").write_bytes(lzma.compress(build_module("virtio")))
    (kernel / "virtio_net.ko.gz").write_bytes(gzip.compress(build_module("virtio-ring", "failover")))
    (kernel / "failover.ko").write_bytes(build_module())
    (tmp_path / "modules.builtin").write_text(
        "kernel/net/ipv4/tcp_cubic.ko\nkernel/drivers/virtio/virtio-pci.ko\n"
    )
    return tmp_path


def test_each_module_follows_its_dependencies_in_any_compression(folder: Path) -> None:
    ordered = KernelModules(folder).read_in_load_order(["virtio_net", "virtio"])
    assert list(ordered) == ["virtio", "virtio_ring", "failover", "virtio_net"]
    assert all(content.startswith(b"\x7fELF") for content in ordered.values())


def test_built_in_modules_are_neither_missing_nor_loaded(folder: Path) -> None:
    modules = KernelModules(folder)
    assert modules.list_missing(["tcp_cubic", "virtio_pci", "virtio_net", "vmxnet3"]) == ["vmxnet3"]
    assert list(modules.read_in_load_order(["tcp_cubic", "vmxnet3"])) == []


def test_circular_dependencies_do_not_loop(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/a.ko").write_bytes(build_module("b"))
    (tmp_path / "kernel/b.ko").write_bytes(build_module("a"))
    assert set(KernelModules(tmp_path).read_in_load_order(["a"])) == {"a", "b"}


@pytest.mark.parametrize("content", [b"", b"no module", b"\x7fELF\x02" + bytes(100), build_module("x")[:90]])
def test_a_file_that_is_not_a_module_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.ko"
    with pytest.raises(BenchError) as refused:
        parse_dependencies(content, path)
    assert refused.value.where == str(path)


def test_a_module_that_cannot_be_unpacked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.ko.xz"
    path.write_bytes(b"not xz")
    with pytest.raises(BenchError, match="cannot read this kernel module") as refused:
        read_module(path)
    assert refused.value.where == str(path)


def test_zstd_is_unpacked_or_the_missing_program_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "packed.ko.zst"
    if shutil.which("zstd"):
        path.write_bytes(
            subprocess.run(["zstd", "-qc"], input=build_module("y"), capture_output=True, check=True).stdout
        )
        assert parse_dependencies(read_module(path), path) == ["y"]
    monkeypatch.setenv("PATH", str(tmp_path))
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(BenchError) as refused:
        read_module(path)
    assert refused.value.where == str(path)
