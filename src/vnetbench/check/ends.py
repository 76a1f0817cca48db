"""The two ends of a checked path, and the section `[testbed]` of the studies that measure it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vnetbench.errors import BenchError
from vnetbench.study.file.host_value_types import iperf3_servers, split_canonical_server, ssh_destinations
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.problems import WrongValue
from vnetbench.study.rules.lab_checks import RESERVED_HOST_NAMES

LOCAL = "local"
IPERF3_SCHEME = "iperf3://"
LAB_NAMES = ("a1", "b1")
"""Names of the two endpoints of a lab."""
LABS = (NETNS, QEMU)
"""Labs that a check without ends can create."""
_END_FORMS = f"{LOCAL}, an SSH name such as web-01 or root@web-01, or {IPERF3_SCHEME}HOST[:PORT]"


@dataclass(frozen=True)
class End:
    """One end of the path."""

    name: str
    """Its name in the results."""
    access: Literal["lab", "local", "ssh", "iperf3"]
    destination: str = ""
    """The SSH destination, or the iperf3 server as `host:port`."""

    @property
    def has_agent(self) -> bool:
        """Whether the bench can run its agent there."""
        return self.access != "iperf3"


@dataclass(frozen=True)
class CheckedPath:
    """The path between two ends. The first end sends in the direction forward."""

    first: End
    second: End
    lab: str = ""
    """The lab that has both ends; empty for existing machines."""

    @property
    def is_own_lab(self) -> bool:
        """Whether the load stays in a lab on this machine."""
        return self.first.access == "lab"

    @property
    def has_both_agents(self) -> bool:
        """Whether the bench can run its agent at both ends."""
        return self.first.has_agent and self.second.has_agent

    def direction_name(self, direction: str) -> str:
        """Return a level of the factor `direction` with the names of the ends: `web-01 → db-01`."""
        first, second = self.first.name, self.second.name
        names = {"forward": f"{first} → {second}", "reverse": f"{second} → {first}"}
        return names.get(direction, f"{first} ↔ {second}")

    def testbed_toml(self) -> str:
        """Return the sections of a study that describe the path."""
        if self.is_own_lab:
            return f"[testbed]\nlab = {json.dumps(self.lab)}\naudit = false\n"
        lines = ["[testbed]", 'lab = "hosts"', "audit = false  # The check has audited both ends already."]
        for end in (self.first, self.second):
            value = "true" if end.access == "local" else json.dumps(end.destination)
            lines += ["", "[[testbed.host]]", f"name = {json.dumps(end.name)}", f"{end.access} = {value}"]
        return "\n".join(lines) + "\n"


def parse_path(arguments: Sequence[str], lab: str | None = None) -> CheckedPath:
    """Return the path that the arguments name.

    Without an argument, and with `local` only, the path is a lab on this machine: two namespaces, or two
    guests with the lab `qemu`. With one other end, this machine is the first end.

    Raises:
        BenchError: An end has no valid form, or the two ends cannot be measured together.
    """
    if len(arguments) > 2:
        raise BenchError(
            f"a path has two ends, but {len(arguments)} are named", fix="name one end or two: check A B"
        )
    if all(argument == LOCAL for argument in arguments):
        first, second = (End(name, "lab") for name in LAB_NAMES)
        return CheckedPath(first, second, lab or NETNS)
    if lab is not None:
        raise BenchError(
            "a lab creates both ends of the path itself",
            where=f"--lab {lab}",
            fix="remove --lab, or name no ends",
        )
    named = list(arguments) if len(arguments) == 2 else [LOCAL, *arguments]
    first, second = (_parse_end(argument) for argument in named)
    if not first.has_agent:
        first, second = second, first
    if not first.has_agent:
        raise BenchError(
            "both ends are iperf3 servers, so no end can measure",
            where=" ".join(arguments),
            fix=f"replace one of them by {LOCAL} or by an SSH name",
        )
    if not second.has_agent and first.access != "local":
        raise BenchError(
            "the bench can reach an iperf3 server from this machine only",
            where=" ".join(arguments),
            fix=f"run this command on {first.name}: vnetbench check {IPERF3_SCHEME}{second.destination}",
        )
    if first.destination == second.destination and first.access == second.access:
        raise BenchError(
            "both ends are the same machine",
            where=" ".join(arguments),
            fix=f"name two machines, or check this machine alone: vnetbench check {LOCAL}",
        )
    if first.name == second.name:
        second = End(f"{second.name}-2", second.access, second.destination)
    return CheckedPath(first, second)


def _parse_end(argument: str) -> End:
    if argument == LOCAL:
        return End("here", "local")
    is_server = argument.startswith(IPERF3_SCHEME)
    try:
        if is_server:
            server = str(iperf3_servers().parse(argument.removeprefix(IPERF3_SCHEME).rstrip("/")))
            return End(_make_name(split_canonical_server(server)[0]), "iperf3", server)
        destination = str(ssh_destinations().parse(argument))
    except WrongValue as error:
        raise BenchError(error.what, where=argument, fix=f"write {_END_FORMS}") from error
    return End(_make_name(_host_of_ssh_destination(destination)), "ssh", destination)


def _host_of_ssh_destination(destination: str) -> str:
    """Return the host of `[user@]host` or `ssh://[user@]host[:port]` (ssh(1))."""
    host = destination.removeprefix("ssh://").rpartition("@")[2]
    if destination.startswith("ssh://"):
        host = re.sub(r":[0-9]+/?$", "", host)
    return host.strip("[]/")


def _make_name(host: str) -> str:
    """Return a name that a study accepts for an endpoint."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", host).strip("-._")[:60] or "host"
    return f"{name}-1" if name in (*RESERVED_HOST_NAMES, "here") else name
