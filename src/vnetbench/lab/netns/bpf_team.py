"""A team of BPF programs: at each end, the agent chooses the link of each frame by the policy of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.bpf_policies import BPF_POLICY_BY_NAME
from vnetbench.lab.netns.testbed_team import FAR, NEAR, TEAM_FIX, TestbedTeam, interfaces_of
from vnetbench.lab.netns.topology import NetDevice, team_port
from vnetbench.study.teams import ACTIVE_BACKUP, PHYSICAL_LOAD, PORT_ID
from vnetbench.teaming.flows import parse_mac
from vnetbench.teaming.state.team_state import TeamState
from vnetbench.teaming.team import Team, Uplink

STATE_FORMAT = "team.read"
ACTIVE_LINK = 0
"""The link that active-backup uses."""


@dataclass(frozen=True)
class BpfTestbedTeam(TestbedTeam):
    """A team whose links the agent joins to one port of each bridge.

    A far end without a policy is an ordinary switch: each link is a port of its own, and it sends answers
    over the link where it learned the sender's address.
    """

    agent: AgentClient
    """The agent in the namespace of the virtual switches."""
    namespace: str

    def bundle_links(self) -> None:
        """See TestbedTeam."""
        for vswitch in (NEAR, FAR):
            self.agent.call("team.stop", port=team_port(vswitch))
        far_policy = self.spec.far_policy
        self._attach_ports(far_is_bundled=far_policy is not None)
        self._start(NEAR, self.links.near, self.spec.policy, bundled=far_policy is not None)
        if far_policy is not None:
            self._start(FAR, self.links.far, far_policy, bundled=True)

    def _attach_ports(self, *, far_is_bundled: bool) -> None:
        """Make the team's port, or else each link, a port of the far bridge."""
        port = team_port(FAR)
        with netlink.open_in_namespace(self.namespace) as ipr:
            bridge = netlink.interface_index(ipr, FAR)
            attached = {port: far_is_bundled}
            attached |= dict.fromkeys(interfaces_of(self.links.far), not far_is_bundled)
            for name, is_port in attached.items():
                index = netlink.interface_index(ipr, name)
                ipr.link("set", index=index, master=bridge if is_port else 0)

    def _start(self, vswitch: str, members: tuple[NetDevice, ...], policy: str, *, bundled: bool) -> None:
        try:
            self.agent.call(
                "team.start",
                port=team_port(vswitch),
                members=interfaces_of(members),
                active=ACTIVE_LINK,
                bundled=bundled,
                balance=self._balancing() if policy == PHYSICAL_LOAD else None,
                **BPF_POLICY_BY_NAME[policy].parameters(),
            )
        except AgentError as error:
            raise BenchError(
                error.message,
                where=f"team at vSwitch {vswitch}",
                fix="run as root on Linux 5.12 or later, or use vswitch = openvswitch with its policies",
            ) from error

    def _balancing(self) -> dict[str, Any]:
        """Return the parameter `balance` of the request `team.start`."""
        return {"period_s": self.spec.load_period_s, "speeds_bps": list(self.spec.speeds_bps)}

    def read_near_state(self) -> TeamState:
        """See TestbedTeam."""
        return self._read_state(NEAR, self.links.near, self.spec.policy)

    def read_far_state(self) -> TeamState | None:
        """See TestbedTeam."""
        policy = self.spec.far_policy
        return None if policy is None else self._read_state(FAR, self.links.far, policy)

    def _read_state(self, vswitch: str, devices: tuple[NetDevice, ...], policy: str) -> TeamState:
        """Return the state of one end; raises TreatmentRefused if the agent runs another team."""
        answer = self._read(vswitch)
        requested = {"members": interfaces_of(devices), **BPF_POLICY_BY_NAME[policy].parameters()}
        found = {name: answer[name] for name in ("policy", "fields", "reduction")}
        found["members"] = [each["interface"] for each in answer["members"]]
        if found != requested:
            raise TreatmentRefused(
                f"the agent runs the team {found} instead of {requested}",
                where=f"vSwitch {vswitch}",
                fix=TEAM_FIX,
            )
        table = {(each.get("port") or each.get("mac")): int(each["member"]) for each in answer["table"]}
        is_by_port = policy in (PORT_ID, PHYSICAL_LOAD)
        with netlink.open_in_namespace(self.namespace) as ipr:
            by_port = {netlink.interface_index(ipr, name): n for name, n in table.items() if is_by_port}
            uplinks = tuple(
                Uplink(name, speed, _has_link(ipr, name))
                for name, speed in zip(interfaces_of(devices), self.spec.speeds_bps, strict=True)
            )
        team = Team(
            uplinks,
            active=ACTIVE_LINK if policy == ACTIVE_BACKUP else None,
            uplink_by_port_id=by_port,
            uplink_by_mac={} if is_by_port else {parse_mac(mac): n for mac, n in table.items()},
            packets_carry_hash=False,
        )
        return TeamState(STATE_FORMAT, team, policy)

    def _read(self, vswitch: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.agent.call("team.read", port=team_port(vswitch))
        return answer

    def backend_values(self) -> Mapping[str, Any]:
        """See TestbedTeam. Adds the frames of each link since the team was created, by end."""
        ends = {"near": self._read(NEAR)}
        if self.spec.far_policy is not None:
            ends["far"] = self._read(FAR)
        moves_ports = PHYSICAL_LOAD in (self.spec.policy, self.spec.far_policy)
        return {
            "far_policy": self.spec.far_policy,
            **({"rebalance_interval_s": self.spec.load_period_s} if moves_ports else {}),
            "frames": {
                end: {
                    "sent": [each["sent"] for each in answer["members"]],
                    "received": [each["received"] for each in answer["members"]],
                    "lacking_fields": answer["lacking_fields"],
                    "rejected": answer["rejected"],
                }
                for end, answer in ends.items()
            },
        }


def _has_link(ipr: Any, interface: str) -> bool:
    (message,) = ipr.get_links(netlink.interface_index(ipr, interface))
    return bool(message.get_attr("IFLA_OPERSTATE") == "UP")
