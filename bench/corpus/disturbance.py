"""The type of a disturbance and the trial that it acts on."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_agents_in_namespaces
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.lab.netns.testbed import NetnsTestbed
from vnetbench.lab.netns.topology import Vm

SWITCH_AGENT = "corpus switch"
"""Name of the corpus's own agent in the namespace of the virtual switches."""


@dataclass
class DisturbanceTarget:
    """A trial that is about to run on a prepared testbed."""

    testbed: NetnsTestbed | GuestTestbed
    trial_index: int
    """Index of the trial in its run, from 0."""
    random: random.Random
    """Random numbers for this trial of this run."""
    measurements: dict[str, float]
    """Values that disturbances measure, summed over the run, to show that they had an effect."""

    @property
    def testbed_name(self) -> str:
        """Name of the testbed, which labels everything that belongs to it."""
        return self.testbed.topology.testbed_name

    @property
    def switch_namespace(self) -> str:
        """The namespace of the virtual switches."""
        return self.testbed.topology.switch_namespace

    @property
    def vms(self) -> list[Vm]:
        """The endpoints that are namespaces of this machine."""
        return [end for end in self.testbed.endpoints if isinstance(end, Vm)]

    def switch_agent(self) -> AgentClient:
        """Return an agent in the namespace of the virtual switches, which ends with the testbed."""
        agents = self.testbed.agents
        if SWITCH_AGENT not in agents:
            start_agents_in_namespaces({SWITCH_AGENT: self.switch_namespace}, self.testbed_name, agents)
        return agents[SWITCH_AGENT]


Disturbance = Callable[[DisturbanceTarget], AbstractContextManager[object]]
"""Disturbs a trial inside a context. Leaving the context always undoes the disturbance."""
