"""Counters of ordinary tools, sampled while a cause is injected, to see that the cause exists.

Set VNETBENCH_REDTEAM_PROBES to a folder. Only for checks: the tools use CPU time themselves.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from bench.redteam.model import Inject, Value
from bench.redteam.target import Target

FOLDER = os.environ.get("VNETBENCH_REDTEAM_PROBES", "")
INTERVAL_S = 0.25
COMMANDS = (
    "ip -s link",
    "tc -s qdisc",
    "nstat -asz IpInReceives TcpRetransSegs TcpOutSegs TcpExtTCPLostRetransmit TcpExtTCPTimeouts "
    "TcpExtTCPOFOQueue TcpExtTCPDSACKRecv TcpExtListenDrops TcpExtListenOverflows TcpExtTCPAbortOnData "
    "TcpEstabResets TcpOutRsts UdpInDatagrams UdpRcvbufErrors TcpActiveOpens TcpPassiveOpens TcpAttemptFails "
    "TcpExtTCPRcvQDrop TcpExtTCPBacklogDrop TcpExtPruneCalled TcpExtTCPRcvCollapsed",
    "ss -tinmH",
    "iptables -nvxL",
    "iptables -t raw -nvxL",
    "nft list ruleset",
    "ip neigh",
    "ip route",
)


def probed(name: str, inject: Inject | None) -> Inject | None:
    """Return an injection that also samples counters, if the environment asks for that."""
    if inject is None or not FOLDER:
        return inject
    wrapped = inject

    def inject_and_probe(target: Target, value: Value, stack: ExitStack) -> None:
        wrapped(target, value, stack)
        start_probe(name, target, stack)

    return inject_and_probe


def start_probe(name: str, target: Target, stack: ExitStack) -> None:
    """Append samples of all counters to a file until the injection ends."""
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    path = Path(FOLDER) / f"{name}.txt"
    stopped = threading.Event()
    path.open("a").write(f"##### injected {target.log}\n")

    def loop() -> None:
        while not stopped.wait(INTERVAL_S):
            with path.open("a") as file:
                file.write(f"#### {time.monotonic():.3f}\n{read_cpu(target)}\n")
                for where in ("a1", "b1", "sw"):
                    script = "; ".join(f"echo '### {where} {line}'; {line} 2>&1" for line in COMMANDS)
                    words = target.command(where, ["sh", "-c", script])
                    done = subprocess.run(words, capture_output=True, text=True, check=False)
                    file.write(done.stdout)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    stack.callback(thread.join, 5)
    stack.callback(stopped.set)


def read_cpu(target: Target) -> str:
    """Return the machine's CPU times, and those of the agents and of injected programs."""
    lines = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    pids = [*target.agents.values(), *(process.pid for _, process in target.processes)]
    for pid in pids:
        for name in ("stat", "schedstat", "status"):
            path = Path(f"/proc/{pid}/{name}")
            text = path.read_text() if path.exists() else ""
            keep = [
                x
                for x in text.splitlines()
                if name != "status" or x.startswith(("Cpus_allowed_list", "State"))
            ]
            lines += [f"pid {pid} {name} {x}" for x in keep]
    return "\n".join(lines)
