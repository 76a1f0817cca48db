"""What a disturbance works on, and what a disturbance is."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_agents_in_namespaces
from vnetbench.lab.netns.topology import Vm
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.lab.netns.testbed import NetnsTestbed

SWITCH = "corpus switch"
"""The agent of ours in the namespace of the virtual switches."""


@dataclass
class Scene:
    """One trial that is about to run, on a testbed that has been set as its study asks and proved."""

    bed: NetnsTestbed | GuestTestbed
    number: int
    """Of the trial in its run, from 0."""
    random: random.Random
    """Of the run and the trial."""
    told: dict[str, float]
    """What disturbances tell of themselves, added up over the run: the proof that they did something."""

    @property
    def name(self) -> str:
        """Of the testbed: the label of all that is made for it."""
        return self.bed.topology.name

    @property
    def switch(self) -> str:
        """The namespace of the virtual switches."""
        return self.bed.topology.switch_namespace

    @property
    def vms(self) -> list[Vm]:
        """The endpoints that are namespaces of this machine."""
        return [end for end in self.bed.endpoints if isinstance(end, Vm)]

    def agent_at_switch(self) -> AgentClient:
        """An agent that sets what is in the namespace of the virtual switches; it ends with the testbed."""
        agents = self.bed.agents
        if SWITCH not in agents:
            start_agents_in_namespaces({SWITCH: self.switch}, self.name, agents)
        return agents[SWITCH]


Disturb = Callable[[Scene], AbstractContextManager[object]]
"""Makes something wrong from entering until leaving; leaving undoes it, whatever happened meanwhile."""
