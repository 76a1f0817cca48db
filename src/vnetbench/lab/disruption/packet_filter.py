"""Drops frames of one EtherType that leave an interface, with a filter of nftables at its egress."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import NetDevice

_PROGRAM = "nft"
_TABLE = "vnetbench_event"


def find_program() -> str:
    """Return the path of `nft`; raises BenchError if it is not installed."""
    if (path := shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path="/usr/sbin:/sbin")) is None:
        raise BenchError(f"{_PROGRAM} is missing", fix="apt-get install nftables")
    return path


def start_dropping(devices: Sequence[NetDevice], ether_type: int) -> None:
    """Drop and count what leaves these interfaces of one namespace; raises BenchError.

    The egress hook needs Linux 5.16.
    """
    chains = "".join(
        f"chain at{number} {{ type filter hook egress device {device.interface} priority 0; "
        f"ether type {ether_type:#06x} counter drop; }}\n"
        for number, device in enumerate(devices)
    )
    _run(devices[0].namespace, f"table netdev {_TABLE} {{\n{chains}}}\n")


def count_drops(namespace: str) -> int:
    """Return the frames dropped since `start_dropping`; raises BenchError."""
    listed = _run(namespace, f"list table netdev {_TABLE}\n")
    return sum(int(each) for each in re.findall(r"counter packets (\d+)", listed))


def stop_dropping(namespace: str) -> None:
    """Remove the filter; raises BenchError."""
    _run(namespace, f"delete table netdev {_TABLE}\n")


def _run(namespace: str, script: str) -> str:
    """Run a script of `nft` in a namespace; return its output."""
    command = [find_program(), "-f", "-"]
    done = netlink.run_in_namespace(
        namespace, lambda: subprocess.run(command, input=script, capture_output=True, text=True)
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[0]
        raise BenchError(
            f"{_PROGRAM} failed: {reason}",
            where=namespace,
            fix="use another event, or a kernel from 5.16 on with nftables (CONFIG_NETFILTER_EGRESS)",
        )
    return done.stdout
