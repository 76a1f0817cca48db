"""Finds a kernel's modules, reads their dependencies and puts them in loading order."""

from __future__ import annotations

import gzip
import importlib
import lzma
import struct
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vnetbench.errors import BenchError

REQUIRED_MODULES = ("virtio_pci", "virtio_console")
"""Modules of every guest, which connect its agent."""

ADAPTER_DRIVERS: Mapping[str, tuple[str, ...]] = {
    "virtio-net": ("virtio_net",),
    "virtio-net-vhost": ("virtio_net",),
    "macvtap": ("virtio_net",),
    "vmxnet3": ("vmxnet3",),
    "e1000e": ("e1000e",),
    "e1000": ("e1000",),
    "rtl8139": ("8139cp",),
    "igb": ("igb",),
}
"""Modules by level of the factor `adapter`."""

VIRTUAL_FUNCTION_DRIVERS = ("igbvf", "ixgbevf", "iavf", "mlx5_core")
"""Drivers of virtual functions. Only the guest finds out which one its `vf` needs."""

OPTIONAL_MODULES = (
    "bridge", "bonding", "af_packet", "vmw_vsock_virtio_transport", "vsock_loopback", "sch_fq",
    "sch_fq_codel",
    "tcp_bbr", "tcp_dctcp", "tcp_htcp", "tcp_vegas", "tcp_westwood", "tcp_illinois", "tcp_bic", "tcp_cdg",
    "tcp_scalable", "tcp_hybla", "tcp_highspeed", "tcp_lp", "tcp_nv", "tcp_veno", "tcp_yeah",
)  # fmt: skip
"""Modules that guests get if the kernel has them. The agent refuses a treatment that needs a missing one."""

PARAMETERS_BY_MODULE: Mapping[str, str] = {"bonding": "max_bonds=0"}
"""Parameters of modules. By default, bonding would add a bond to each guest (bonding.rst)."""

DECOMPRESSION_TIMEOUT_S = 60.0
_MODULE_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
"""Elf64_Shdr (elf(5)): name, type, flags, address, offset, size, and fields that are not used here."""


@dataclass(frozen=True)
class KernelModules:
    """The modules of one kernel."""

    folder: Path
    """`…/lib/modules/RELEASE`."""

    @cached_property
    def loadable_module_files(self) -> Mapping[str, Path]:
        """Loadable modules by name."""
        return {
            _module_name(path.name): path
            for path in sorted((self.folder / "kernel").rglob("*.ko*"))
            if path.name.endswith(_MODULE_SUFFIXES)
        }

    @cached_property
    def built_in_module_names(self) -> frozenset[str]:
        """Names of the modules in the kernel's image."""
        try:
            lines = (self.folder / "modules.builtin").read_text().splitlines()
        except OSError:
            return frozenset()
        return frozenset(_module_name(Path(line).name) for line in lines)

    def list_missing(self, names: Iterable[str]) -> list[str]:
        """Return the modules that this kernel has neither loadable nor built in."""
        return [
            name
            for name in names
            if name not in self.loadable_module_files and name not in self.built_in_module_names
        ]

    def read_in_load_order(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the modules and their dependencies, unpacked, each after its dependencies.

        Built-in and missing modules are left out.

        Raises:
            BenchError: if a module cannot be unpacked.
        """
        ordered: dict[str, bytes] = {}

        def add(name: str, dependents: tuple[str, ...]) -> None:
            if name in ordered or name in dependents or name not in self.loadable_module_files:
                return
            content = read_module(self.loadable_module_files[name])
            for dependency in parse_dependencies(content, self.loadable_module_files[name]):
                add(dependency, (*dependents, name))
            ordered[name] = content

        for name in names:
            add(name, ())
        return ordered


def read_module(path: Path) -> bytes:
    """Return a module's ELF file, decompressed if needed; raises BenchError if it is not readable."""
    try:
        content = path.read_bytes()
        if path.suffix == ".xz":
            return lzma.decompress(content)
        if path.suffix == ".gz":
            return gzip.decompress(content)
        return _decompress_zstd(content) if path.suffix == ".zst" else content
    except (OSError, lzma.LZMAError, EOFError, subprocess.SubprocessError) as error:
        fix = "apt-get install zstd" if path.suffix == ".zst" else "vnetbench guest prepare --again"
        raise BenchError(f"cannot read this kernel module: {error}", where=str(path), fix=fix) from error


def parse_dependencies(content: bytes, path: Path) -> list[str]:
    """Return the names of the modules on which a module depends (`depends` in its section .modinfo).

    Raises:
        BenchError: if the content is not a 64-bit ELF file.
    """
    for entry in _read_section(content, b".modinfo", path).split(b"\0"):
        key, _, value = entry.partition(b"=")
        if key == b"depends":
            return [_module_name(each.decode()) for each in value.split(b",") if each]
    return []


def _read_section(content: bytes, section_name: bytes, path: Path) -> bytes:
    """Return one section of an ELF file (elf(5)); empty if there is none of that name."""
    try:
        if content[:5] != b"\x7fELF\x02":
            raise ValueError
        (table,) = struct.unpack_from("<Q", content, 0x28)
        size, count, names = struct.unpack_from("<HHH", content, 0x3A)
        headers = [_SECTION_HEADER.unpack_from(content, table + i * size) for i in range(count)]
        texts = headers[names][4]
        for header in headers:
            begin = texts + header[0]
            if content[begin : content.index(b"\0", begin)] == section_name:
                return content[header[4] : header[4] + header[5]]
    except (ValueError, IndexError, struct.error):
        raise BenchError(
            "this file is not a 64-bit kernel module",
            where=str(path),
            fix="reinstall the kernel's modules",
        ) from None
    return b""


def _decompress_zstd(content: bytes) -> bytes:
    try:
        # In the standard library since Python 3.14.
        decompress = importlib.import_module("compression.zstd").decompress
    except ImportError:
        done = subprocess.run(
            ["zstd", "-dcq"], input=content, capture_output=True, check=True, timeout=DECOMPRESSION_TIMEOUT_S
        )
        return done.stdout
    return bytes(decompress(content))


def _module_name(file: str) -> str:
    """Return the kernel's name of a module's file: `virtio-pci.ko.xz` is virtio_pci."""
    return file.partition(".ko")[0].replace("-", "_")
