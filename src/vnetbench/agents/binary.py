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
