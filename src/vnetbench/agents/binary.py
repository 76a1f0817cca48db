"""Locates the agent's binary and reads its hash and architecture."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from vnetbench.errors import BenchError

AGENT_BINARY_FILE_NAME = "vnetbench-agent"


def agent_binary_path() -> Path:
    """Return the path of the agent's binary.

    `VNETBENCH_AGENT` has precedence, then the binary in this package, then the one built in a checkout.

    Raises:
        BenchError: if there is no executable at the path.
    """
    named = os.environ.get("VNETBENCH_AGENT")
    here = Path(__file__).resolve()
    candidates = (
        [Path(named)]
        if named
        else [
            here.parent / "bin" / AGENT_BINARY_FILE_NAME,
            here.parents[3] / "target/release" / AGENT_BINARY_FILE_NAME,
        ]
    )
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise BenchError(
        "the agent's binary is missing",
        where=str(candidates[0]),
        fix="run make install, which builds the agent at this path",
    )


def agent_sha256() -> str:
    """Return the SHA-256 of the agent's binary, which is kept with every campaign."""
    return hashlib.sha256(agent_binary_path().read_bytes()).hexdigest()


_ARCHITECTURE_NAMES_BY_ELF_MACHINE = {
    62: ("x86_64", "amd64"),
    183: ("aarch64", "arm64"),
    243: ("riscv64",),
    22: ("s390x",),
}
"""Output of `uname -m` by the ELF header's e_machine (elf(5), <linux/elf-em.h>)."""


def agent_architectures() -> tuple[str, ...]:
    """Return the names that `uname -m` prints on machines for which the agent is built.

    Raises:
        BenchError: if the file is no ELF binary.
    """
    path = agent_binary_path()
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF" or len(head) < 20:
        raise BenchError(
            "the file is not an ELF binary, so it cannot be the agent",
            where=str(path),
            fix="run make install, which builds the agent",
        )
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return _ARCHITECTURE_NAMES_BY_ELF_MACHINE.get(number, (f"an unknown architecture (e_machine {number})",))
