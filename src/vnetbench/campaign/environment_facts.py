"""Facts about the machine and its tools, stored with every campaign and compared between campaigns."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vnetbench import __version__
from vnetbench.agents.binary import agent_sha256
from vnetbench.agents.client import AgentClient
from vnetbench.lab.privilege import has_root_outside_user_namespace, is_in_user_namespace
from vnetbench.lab.testbed import Testbed

LIBRARIES = ("pyroute2", "numpy", "scipy", "ruptures")
"""Libraries whose version can change a result."""


def read_bench_facts() -> dict[str, object]:
    """Return versions of the bench and its libraries, its privilege, CPUs and the machine's load."""
    return {
        "vnetbench": __version__,
        "agent_sha256": agent_sha256(),
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "privilege": "user namespace"
        if is_in_user_namespace()
        else "root"
        if has_root_outside_user_namespace()
        else "user",
        "cpus_allowed": len(os.sched_getaffinity(0)),
        "load_average": Path("/proc/loadavg").read_text().split()[0],
    }


def read_endpoint_facts(testbed: Testbed, observer: AgentClient) -> dict[str, dict[str, object]]:
    """Return the facts that the agents report about the host and the endpoints; raises AgentError.

    Of endpoints that share a kernel, only the first pair is queried: all pairs have the same settings.
    """
    queried = [e.name for number, e in enumerate(testbed.endpoints) if e.has_own_kernel or number < 2]
    agents = {
        "host": observer,
        **{name: testbed.agents[name] for name in (*queried, *testbed.interfaces_by_forwarding_agent())},
    }
    pending = [(name, agent, agent.send("agent.facts")) for name, agent in agents.items()]
    return {name: agent.wait(future, "agent.facts") for name, agent, future in pending}


def add_kernel_ids(
    description: Mapping[str, object], facts_by_subject: Mapping[str, Mapping[str, Any]]
) -> dict[str, object]:
    """Return a testbed's description in which each endpoint whose agent reports it has its kernel's identity.

    Endpoints of one machine, such as two containers, share a kernel, and each reports all of its CPUs.
    """
    endpoints = description.get("endpoints")
    if not isinstance(endpoints, list):
        return dict(description)
    ids = {name: facts.get("kernel_id") for name, facts in facts_by_subject.items()}
    known = [{**each, "kernel": ids[each["name"]]} if ids.get(each["name"]) else each for each in endpoints]
    return {**description, "endpoints": known}
