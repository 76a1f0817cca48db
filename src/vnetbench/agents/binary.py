"""Where the agent's binary is, and that it is the one this bench speaks with."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from vnetbench.errors import BenchError

NAME = "vnetbench-agent"


def agent_binary() -> Path:
    """The agent shipped in this package, else the one built in a checkout; `VNETBENCH_AGENT` names another.

    Raises BenchError when there is none.
    """
    named = os.environ.get("VNETBENCH_AGENT")
    here = Path(__file__).resolve()
    candidates = (
        [Path(named)] if named else [here.parent / "bin" / NAME, here.parents[3] / "target/release" / NAME]
    )
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise BenchError(
        "the agent's binary is missing",
        where=str(candidates[0]),
        fix="make install builds it and puts it there",
    )


def agent_hash() -> str:
    """SHA-256 of the agent's binary, kept with every campaign."""
    return hashlib.sha256(agent_binary().read_bytes()).hexdigest()


_MACHINES = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64"), 243: ("riscv64",), 22: ("s390x",)}
"""What `uname -m` prints where a binary of that e_machine runs (elf(5), <linux/elf-em.h>)."""


def agent_machine() -> tuple[str, ...]:
    """The names of the kind of machine that the agent's binary is for; raises BenchError for no binary."""
    path = agent_binary()
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF" or len(head) < 20:
        raise BenchError("this is no agent", where=str(path), fix="make install builds it")
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return _MACHINES.get(number, (f"an unknown machine ({number})",))
