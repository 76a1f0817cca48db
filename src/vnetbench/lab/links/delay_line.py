"""Delay lines of a testbed: an agent in the switch namespace joins pairs of taps, in place of links."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_agents_in_namespaces
from vnetbench.lab import knobs, netlink
from vnetbench.lab.endpoint import NO_SIDE, Endpoint
from vnetbench.lab.links.impairments import Impairments
from vnetbench.lab.netns.topology import DelayLineEnds
from vnetbench.study.factors.cpu_lists import format_cpu_list

BACKEND_NAME = "delay line"
DELAY_LINE_AGENT_NAME = "line"
DIRECTIONS = ("forward", "reverse")
"""From side a to side b, and from side b to side a."""
SEED_BITS = 48
DELAY_LINE_FIX_BY_KNOB = {
    knobs.CPUS_KNOB: "let the bench use these CPUs (taskset, cpuset), or leave out the link impairments"
}


class DelayLines:
    """The running delay lines of one testbed, which end with their agent."""

    name = BACKEND_NAME

    def __init__(self, testbed_name: str, namespace: str, ends: Sequence[DelayLineEnds]) -> None:
        """Start the agent and the lines, with their taps in the switch namespace under temporary names."""
        self._lines: list[str] = []
        agents: dict[str, AgentClient] = {}
        try:
            start_agents_in_namespaces({DELAY_LINE_AGENT_NAME: namespace}, testbed_name, agents)
            for each in ends:
                answer = agents[DELAY_LINE_AGENT_NAME].call(
                    "delay_line.start", ports=list(each.temporary_tap_names)
                )
                self._lines.append(answer["line"])
        except BaseException:
            for agent in agents.values():
                agent.close()
            raise
        self.agent = agents[DELAY_LINE_AGENT_NAME]

    def set_impairments(self, impairments: Impairments) -> Impairments:
        """Set what the lines do to packets, reset their counters and reseed them; return what was read back.

        New seeds keep the trials of one testbed independent of each other.
        """
        parameters = {
            "delay_us": round(impairments.delay_s * 1e6, 3),
            "jitter_us": round(impairments.max_jitter_s * 1e6, 3),
            "loss": impairments.loss_ratio,
            "reorder": impairments.reordering_ratio,
        }
        answers = [
            self.agent.call(
                "delay_line.set",
                line=line,
                seed=secrets.randbits(SEED_BITS),
                forward=parameters,
                reverse=parameters,
            )
            for line in self._lines
        ]
        read_back = {
            _to_impairments(answer[direction]["requested"]) for answer in answers for direction in DIRECTIONS
        }
        return impairments if read_back == {impairments} else (read_back - {impairments}).pop()

    def pin_threads(
        self, load_cpus: Mapping[str, frozenset[int]], online_cpus: frozenset[int]
    ) -> dict[str, Any]:
        """Pin the lines' threads to CPUs without load, or to all if there are none.

        Args:
            load_cpus: The CPUs that each endpoint's load may use.
            online_cpus: All CPUs that the bench may use.

        Returns:
            The effective values that a trial stores.

        Raises:
            TreatmentRefused: if the threads cannot be pinned.
        """
        taken = frozenset[int]().union(*load_cpus.values())
        cpus = (online_cpus - taken) or online_cpus
        end = Endpoint(BACKEND_NAME, NO_SIDE, 0, "", "", "")
        listed = format_cpu_list(cpus)
        wanted = knobs.KnobSetting(end, knobs.CPUS_KNOB, listed, f"CPUs {listed} for its threads")
        read_back = knobs.set_knob(self.agent, wanted, DELAY_LINE_FIX_BY_KNOB[knobs.CPUS_KNOB])
        knobs.check_settings([wanted], {BACKEND_NAME: {knobs.CPUS_KNOB: read_back}}, DELAY_LINE_FIX_BY_KNOB)
        threads = [line[direction] for line in self.read_counters() for direction in DIRECTIONS]
        return {
            "delay_line_cpus": threads[0]["cpus"],
            "delay_line_shares_cpus": bool(cpus & taken),
            "delay_line_has_priority": all(thread["has_priority"] for thread in threads),
        }

    def read_counters(self) -> list[dict[str, Any]]:
        """Return the settings and counters of each line (`delay_line.read`)."""
        return [self.agent.call("delay_line.read", line=line) for line in self._lines]

    def observer_threads(self) -> list[dict[str, object]]:
        """Return the lines' threads in the form that the observer watches."""
        return [
            {"name": f"delay line {number} {direction}", "tid": line[direction]["tid"]}
            for number, line in enumerate(self.read_counters(), start=1)
            for direction in DIRECTIONS
        ]

    def close(self) -> None:
        """End the agent, which removes the taps."""
        self.agent.close()


def move_taps_to_device_namespaces(switch_namespace: str, ends: Sequence[DelayLineEnds]) -> None:
    """Move taps from the switch namespace to their devices' namespaces and rename them."""
    with netlink.open_in_namespace(switch_namespace) as ipr:
        for each in ends:
            for tap, device in zip(each.temporary_tap_names, each.devices, strict=True):
                if device.location != (switch_namespace, tap):
                    index = netlink.interface_index(ipr, tap)
                    ipr.link("set", index=index, net_ns_fd=device.namespace, ifname=device.interface)


def _to_impairments(reply: Mapping[str, Any]) -> Impairments:
    delay_s, jitter_s = (round(reply[name] / 1e6, 9) for name in ("delay_us", "jitter_us"))
    return Impairments(delay_s, jitter_s, reply["loss"], reply["reorder"])
