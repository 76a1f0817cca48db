"""Delay lines of a testbed: an agent of their own in the switch namespace joins taps, in place of links."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_inside
from vnetbench.lab import knobs, netlink
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.links.impairments import Impairments
from vnetbench.lab.netns.topology import LineEnds
from vnetbench.study.factors.cpu_lists import spell_cpu_list

NAME = "delay line"
AGENT = "line"
DIRECTIONS = ("forward", "reverse")
"""From a to b, and back."""
SEED_BITS = 48
FIXES = {"cpus": "let the bench use these CPUs (taskset, cpuset), or leave the link's impairments out"}


class DelayLines:
    """Those of one testbed, that run now; they end with their agent."""

    name = NAME

    def __init__(self, testbed: str, namespace: str, ends: Sequence[LineEnds]) -> None:
        """Start the agent and the lines; their taps are in the switch namespace, with their first names."""
        self._lines: list[str] = []
        agents: dict[str, AgentClient] = {}
        try:
            start_inside({AGENT: namespace}, testbed, agents)
            for each in ends:
                answer = agents[AGENT].call("line.start", ports=list(each.taps))
                self._lines.append(answer["line"])
        except BaseException:
            for agent in agents.values():
                agent.close()
            raise
        self.agent = agents[AGENT]

    def set(self, asked: Impairments) -> Impairments:
        """See Carrier. What they count begins anew; what they draw too, so that trials are independent."""
        each_way = {
            "delay_us": round(asked.delay_s * 1e6, 3),
            "jitter_us": round(asked.jitter_s * 1e6, 3),
            "loss": asked.loss,
            "reorder": asked.reordering,
        }
        answers = [
            self.agent.call(
                "line.set", line=line, seed=secrets.randbits(SEED_BITS), forward=each_way, reverse=each_way
            )
            for line in self._lines
        ]
        found = {_found(answer[way]["asked"]) for answer in answers for way in DIRECTIONS}
        return asked if found == {asked} else (found - {asked}).pop()

    def place(self, load: Mapping[str, frozenset[int]], online: frozenset[int]) -> dict[str, Any]:
        """Put the threads on CPUs that the load has not, if there are any; what was read back.

        `load` has the CPUs that each endpoint's load may use. Raises TreatmentRefused where they cannot have
        others.
        """
        taken = frozenset[int]().union(*load.values())
        cpus = (online - taken) or online
        end = Endpoint(NAME, "", 0, "", "", "")
        listed = spell_cpu_list(cpus)
        wanted = knobs.Setting(end, "cpus", listed, f"CPUs {listed} for its threads")
        found = knobs.set_one(self.agent, wanted, FIXES["cpus"])
        knobs.judge([wanted], {NAME: {"cpus": found}}, FIXES)
        threads = [line[way] for line in self.read() for way in DIRECTIONS]
        return {
            "delay_line_cpus": threads[0]["cpus"],
            "delay_line_shares_cpus": bool(cpus & taken),
            "delay_line_runs_first": all(thread["is_ranked"] for thread in threads),
        }

    def read(self) -> list[dict[str, Any]]:
        """What each line says of itself (`line.read`): what it was set to, and has counted since."""
        return [self.agent.call("line.read", line=line) for line in self._lines]

    def threads(self) -> list[dict[str, object]]:
        """Its threads, as an observer watches them."""
        return [
            {"name": f"delay line {number} {way}", "tid": line[way]["tid"]}
            for number, line in enumerate(self.read(), start=1)
            for way in DIRECTIONS
        ]

    def close(self) -> None:
        """End the agent, and with it the taps."""
        self.agent.close()


def place_ends(switch_namespace: str, ends: Sequence[LineEnds]) -> None:
    """Move taps from the switch namespace to where they belong, under their own names."""
    with netlink.in_namespace(switch_namespace) as ipr:
        for each in ends:
            for tap, device in zip(each.taps, each.devices, strict=True):
                if device.place != (switch_namespace, tap):
                    index = netlink.index_of(ipr, tap)
                    ipr.link("set", index=index, net_ns_fd=device.namespace, ifname=device.interface)


def _found(told: Mapping[str, Any]) -> Impairments:
    delay_s, jitter_s = (round(told[name] / 1e6, 9) for name in ("delay_us", "jitter_us"))
    return Impairments(delay_s, jitter_s, told["loss"], told["reorder"])
