"""Facts about the machine and its tools, kept with every campaign and compared before two are."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

from vnetbench import __version__
from vnetbench.agents.binary import agent_hash
from vnetbench.agents.client import AgentClient
from vnetbench.lab.testbed import Bed
from vnetbench.lab.privilege import has_root, is_inside

LIBRARIES = ("pyroute2", "numpy", "scipy", "ruptures")
"""Those whose version can change a result."""


def bench_facts() -> dict[str, object]:
    """What this bench is, and how it may use the machine."""
    return {
        "vnetbench": __version__,
        "agent_sha256": agent_hash(),
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "privilege": "user namespace" if is_inside() else "root" if has_root() else "user",
        "cpus_allowed": len(os.sched_getaffinity(0)),
        "load_average": Path("/proc/loadavg").read_text().split()[0],
    }


def endpoint_facts(bed: Bed, observer: AgentClient) -> dict[str, dict[str, object]]:
    """What the agents say of the host and of the endpoints; raises AgentError.

    Of endpoints that share a kernel one of each side is asked: all of a side are made alike.
    """
    asked = [e.name for number, e in enumerate(bed.endpoints) if e.has_own_kernel or number < 2]
    places = {"host": observer, **{name: bed.agents[name] for name in (*asked, *bed.between())}}
    pending = [(place, agent, agent.send("agent.facts")) for place, agent in places.items()]
    return {place: agent.wait(future, "agent.facts") for place, agent, future in pending}
