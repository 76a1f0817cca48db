"""A kernel's modules: where each is, what it needs, and in which order they are loaded."""

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

NEEDED = ("virtio_pci", "virtio_console")
"""Of every guest: the agent is reached by them."""

DRIVERS: Mapping[str, tuple[str, ...]] = {
    "virtio-net": ("virtio_net",),
    "virtio-net-vhost": ("virtio_net",),
    "macvtap": ("virtio_net",),
    "vmxnet3": ("vmxnet3",),
    "e1000e": ("e1000e",),
    "e1000": ("e1000",),
    "rtl8139": ("8139cp",),
    "igb": ("igb",),
}
"""By a level of the factor `adapter`."""

VIRTUAL_FUNCTIONS = ("igbvf", "ixgbevf", "iavf", "mlx5_core")
"""Drivers of virtual functions: which one a `vf` wants is seen in the guest."""

WELCOME = (
    "bridge", "af_packet", "vmw_vsock_virtio_transport", "vsock_loopback", "sch_fq", "sch_fq_codel",
    "tcp_bbr", "tcp_dctcp", "tcp_htcp", "tcp_vegas", "tcp_westwood", "tcp_illinois", "tcp_bic", "tcp_cdg",
    "tcp_scalable", "tcp_hybla", "tcp_highspeed", "tcp_lp", "tcp_nv", "tcp_veno", "tcp_yeah",
)  # fmt: skip
"""Taken where the kernel has them; a treatment that wants one that is not there is refused by its name."""

UNPACKING_TIMEOUT_S = 60.0
_PACKINGS = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
_SHF_ALLOC_FREE_HEADER = struct.Struct("<IIQQQQIIQQ")
"""Elf64_Shdr (elf(5)): name, type, flags, address, offset, size, and what is not needed here."""


@dataclass(frozen=True)
class Modules:
    """The modules of one kernel."""

    folder: Path
    """`…/lib/modules/RELEASE`."""

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """Every loadable module by its name."""
        return {
            _name(path.name): path
            for path in sorted((self.folder / "kernel").rglob("*.ko*"))
            if path.name.endswith(_PACKINGS)
        }

    @cached_property
    def built_in(self) -> frozenset[str]:
        """The names of those that are part of the kernel's image."""
        try:
            lines = (self.folder / "modules.builtin").read_text().splitlines()
        except OSError:
            return frozenset()
        return frozenset(_name(Path(line).name) for line in lines)

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Those of the modules that this kernel has neither loadable nor built in."""
        return [name for name in names if name not in self.files and name not in self.built_in]

    def in_order(self, names: Iterable[str]) -> dict[str, bytes]:
        """The modules and all that they need, unpacked, each after what it needs; without the built-in ones.

        What the kernel lacks is passed over. Raises BenchError for one that cannot be unpacked.
        """
        ordered: dict[str, bytes] = {}

        def add(name: str, above: tuple[str, ...]) -> None:
            if name in ordered or name in above or name not in self.files:
                return
            content = unpacked(self.files[name])
            for needed in dependencies(content, self.files[name]):
                add(needed, (*above, name))
            ordered[name] = content

        for name in names:
            add(name, ())
        return ordered


def unpacked(path: Path) -> bytes:
    """A module's ELF file, whatever it is compressed with; raises BenchError where it cannot be read."""
    try:
        content = path.read_bytes()
        if path.suffix == ".xz":
            return lzma.decompress(content)
        if path.suffix == ".gz":
            return gzip.decompress(content)
        return _unpacked_zstd(content) if path.suffix == ".zst" else content
    except (OSError, lzma.LZMAError, EOFError, subprocess.SubprocessError) as error:
        fix = "apt-get install zstd" if path.suffix == ".zst" else "vnetbench guest prepare --again"
        raise BenchError(f"this kernel module cannot be read: {error}", where=str(path), fix=fix) from error


def dependencies(content: bytes, path: Path) -> list[str]:
    """The names of the modules that a module says it needs (`depends` in its section .modinfo).

    Raises BenchError for what is no 64-bit ELF file.
    """
    for entry in _section(content, b".modinfo", path).split(b"\0"):
        key, _, value = entry.partition(b"=")
        if key == b"depends":
            return [_name(each.decode()) for each in value.split(b",") if each]
    return []


def _section(content: bytes, wanted: bytes, path: Path) -> bytes:
    """One section of an ELF file (elf(5)); empty where it has none of that name."""
    try:
        if content[:5] != b"\x7fELF\x02":
            raise ValueError
        (table,) = struct.unpack_from("<Q", content, 0x28)
        size, count, names = struct.unpack_from("<HHH", content, 0x3A)
        headers = [_SHF_ALLOC_FREE_HEADER.unpack_from(content, table + i * size) for i in range(count)]
        texts = headers[names][4]
        for header in headers:
            begin = texts + header[0]
            if content[begin : content.index(b"\0", begin)] == wanted:
                return content[header[4] : header[4] + header[5]]
    except (ValueError, IndexError, struct.error):
        raise BenchError(
            "this is no kernel module of a 64-bit machine",
            where=str(path),
            fix="reinstall the kernel's modules",
        ) from None
    return b""


def _unpacked_zstd(content: bytes) -> bytes:
    try:
        # Python's own since 3.14.
        decompress = importlib.import_module("compression.zstd").decompress
    except ImportError:
        done = subprocess.run(
            ["zstd", "-dcq"], input=content, capture_output=True, check=True, timeout=UNPACKING_TIMEOUT_S
        )
        return done.stdout
    return bytes(decompress(content))


def _name(file: str) -> str:
    """The kernel's name of a module's file: `virtio-pci.ko.xz` is virtio_pci."""
    return file.partition(".ko")[0].replace("-", "_")
