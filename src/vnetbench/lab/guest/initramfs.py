"""What a guest boots into: the agent as its first process, and the modules that it loads; nothing else."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from vnetbench.agents.binary import agent_binary, agent_hash
from vnetbench.lab.guest import cache
from vnetbench.lab.guest.kernel import Kernel
from vnetbench.lab.guest.modules import DRIVERS, NEEDED, VIRTUAL_FUNCTIONS, WELCOME

INIT = "vnetbench-agent"
"""The agent's name in the guest, at the top of its file system."""
FORM = 1
"""Rises when the same kernel, agent and list come to other contents."""
MOST_BYTES = 256 * 2**20
"""Of all that are kept."""
_FOLDERS = ("dev", "modules", "proc", "run", "sys", "tmp")
_CONSOLE = (5, 1)
"""Major and minor number of /dev/console (the kernel's devices.txt)."""


def built(kernel: Kernel) -> Path:
    """The initramfs for guests of this kernel, built where there is none yet; raises BenchError."""
    names = wanted()
    parts = (str(FORM), kernel.identity(), agent_hash(), *names)
    path = cache.folder("initramfs") / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:32]}.cpio"
    if not path.exists():
        with cache.making(path) as temporary:
            temporary.write_bytes(archive(agent_binary().read_bytes(), kernel.modules.in_order(names)))
        cache.prune("initramfs", MOST_BYTES)
    cache.use(path)
    return path


def wanted() -> tuple[str, ...]:
    """The modules that every guest gets where its kernel has them: one initramfs serves all adapters."""
    drivers = (name for names in DRIVERS.values() for name in names)
    return tuple(dict.fromkeys((*NEEDED, *drivers, *VIRTUAL_FUNCTIONS, *WELCOME)))


def archive(agent: bytes, modules: Mapping[str, bytes]) -> bytes:
    """The archive (cpio's "new ASCII" format: Documentation/driver-api/early-userspace/buffer-format.rst).

    The same contents give the same bytes.
    """
    order = "".join(f"/modules/{name}.ko\n" for name in modules)
    return b"".join(
        (
            *(_entry(name, stat.S_IFDIR | 0o755) for name in _FOLDERS),
            _entry("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE),
            _entry(INIT, stat.S_IFREG | 0o755, agent),
            *(_entry(f"modules/{name}.ko", stat.S_IFREG | 0o644, code) for name, code in modules.items()),
            _entry("modules/order", stat.S_IFREG | 0o644, order.encode()),
            _entry("TRAILER!!!", 0),
        )
    )


def _entry(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    path = name.encode() + b"\0"
    links = 1 if mode else 0
    # inode, mode, uid, gid, links, mtime, size, file system (2), device (2), length of the name, checksum
    fields = (0, mode, 0, 0, links, 0, len(content), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + path
    return b"".join(_padded((head, content)))


def _padded(parts: tuple[bytes, ...]) -> Iterator[bytes]:
    for part in parts:
        yield part
        yield bytes(-len(part) % 4)
