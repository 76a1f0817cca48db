"""Builds the initramfs of guests: the agent as the first process, and the modules that it loads."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from vnetbench.agents.binary import agent_binary_path, agent_sha256
from vnetbench.lab.guest import cache
from vnetbench.lab.guest.kernel import Kernel
from vnetbench.lab.guest.modules import (
    ADAPTER_DRIVERS,
    OPTIONAL_MODULES,
    PARAMETERS_BY_MODULE,
    REQUIRED_MODULES,
    VIRTUAL_FUNCTION_DRIVERS,
)

INIT_FILE_NAME = "vnetbench-agent"
"""Path of the agent in the guest's root."""
FORMAT_VERSION = 2
"""Version of the layout; increment it when the same kernel, agent and modules give other contents."""
MAX_CACHE_BYTES = 256 * 2**20
"""Size limit of all cached initramfs files."""
_EMPTY_FOLDERS = ("dev", "modules", "proc", "run", "sys", "tmp")
_CONSOLE_DEVICE = (5, 1)
"""Major and minor number of /dev/console (the kernel's devices.txt)."""


def find_or_build_initramfs(kernel: Kernel) -> Path:
    """Return the initramfs for a kernel, and build it if needed; raises BenchError."""
    names = guest_modules()
    parts = (str(FORMAT_VERSION), kernel.identity(), agent_sha256(), *names)
    path = (
        cache.cache_subfolder("initramfs")
        / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:32]}.cpio"
    )
    if not path.exists():
        with cache.create_atomically(path) as temporary:
            temporary.write_bytes(
                build_archive(agent_binary_path().read_bytes(), kernel.modules.read_in_load_order(names))
            )
        cache.remove_least_recently_used("initramfs", MAX_CACHE_BYTES)
    cache.mark_used(path)
    return path


def guest_modules() -> tuple[str, ...]:
    """Return the modules of every guest, as far as its kernel has them: one initramfs serves all adapters."""
    drivers = (name for names in ADAPTER_DRIVERS.values() for name in names)
    return tuple(dict.fromkeys((*REQUIRED_MODULES, *drivers, *VIRTUAL_FUNCTION_DRIVERS, *OPTIONAL_MODULES)))


def build_archive(agent: bytes, modules: Mapping[str, bytes]) -> bytes:
    """Return the archive; the same contents give the same bytes.

    The format is cpio's "new ASCII" (Documentation/driver-api/early-userspace/buffer-format.rst).
    """
    order = "".join(
        f"/modules/{name}.ko {PARAMETERS_BY_MODULE.get(name, '')}".rstrip() + "\n" for name in modules
    )
    return b"".join(
        (
            *(_cpio_entry(name, stat.S_IFDIR | 0o755) for name in _EMPTY_FOLDERS),
            _cpio_entry("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE_DEVICE),
            _cpio_entry(INIT_FILE_NAME, stat.S_IFREG | 0o755, agent),
            *(
                _cpio_entry(f"modules/{name}.ko", stat.S_IFREG | 0o644, code)
                for name, code in modules.items()
            ),
            _cpio_entry("modules/order", stat.S_IFREG | 0o644, order.encode()),
            _cpio_entry("TRAILER!!!", 0),
        )
    )


def _cpio_entry(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    path = name.encode() + b"\0"
    links = 1 if mode else 0
    # inode, mode, uid, gid, links, mtime, size, file system (2), device (2), name length, checksum
    fields = (0, mode, 0, 0, links, 0, len(content), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + path
    return b"".join(_pad_to_alignment((head, content)))


def _pad_to_alignment(parts: tuple[bytes, ...]) -> Iterator[bytes]:
    for part in parts:
        yield part
        yield bytes(-len(part) % 4)
