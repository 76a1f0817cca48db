"""A team policy: its name, what it needs of a flow, and the function that predicts the uplink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vnetbench.errors import BenchError
from vnetbench.teaming.flows import PROTOCOLS_WITH_PORTS, Flow
from vnetbench.teaming.prediction import Prediction, certain
from vnetbench.teaming.team import Team

Decider = Literal["hash", "table", "load", "active member", "every packet"]
"""What decides the uplink: a function of the flow, a table, the load, or nothing of the flow."""

Answers = Literal["same policy", "learned", "active member", "unknown"]

_FIXES = {
    "source": "write IP addresses, such as --flow 10.0.0.1-10.0.0.2",
    "destination": "write IP addresses, such as --flow 10.0.0.1-10.0.0.2",
    "source_mac": "add src-mac=, such as --flow 10.0.0.1-10.0.0.2,src-mac=00:50:56:00:00:01",
    "destination_mac": "add dst-mac=, such as --flow 10.0.0.1-10.0.0.2,dst-mac=00:50:56:00:00:02",
    "source_port": "write the ports, such as --flow 10.0.0.1:50000-10.0.0.2:5201",
    "destination_port": "write the ports, such as --flow 10.0.0.1:50000-10.0.0.2:5201",
    "protocol": "add protocol=, such as --flow 10.0.0.1-10.0.0.2,protocol=icmp",
}


@dataclass(frozen=True)
class Policy:
    """A rule by which a team chooses the uplink of a frame.

    Attributes:
        name: Name on the command line.
        family: Product that has the policy.
        summary: What the policy does, as a phrase.
        decider: What decides the uplink.
        source: Where the rule is stated: file and function, documentation or published report.
        needs: Fields of a flow that must be known. Ports are not needed of a protocol without ports.
        choose: Returns the prediction for a flow that has these fields.
        also_reads: Fields of a flow that it reads too, and that need not be known.
        most_uplinks: Largest team of the product; None without a limit.
        answers: Uplink of the answers if nobody names the other side's policy: by the same policy (the switch
            bundles the links), where the switch learned the sender's address, on the active member, or
            nobody knows.
    """

    name: str
    family: str
    summary: str
    decider: Decider
    source: str
    needs: tuple[str, ...]
    choose: Callable[[Flow, Team], Prediction]
    also_reads: tuple[str, ...] = ()
    most_uplinks: int | None = None
    answers: Answers = "same policy"

    def predict(self, flow: Flow, team: Team) -> Prediction:
        """Return the uplink of a flow, or what it depends on.

        Raises:
            BenchError: The flow lacks a field, no uplink is up, or the team is too large.
        """
        self.check_team(team)
        for name in self.needs:
            if getattr(flow, name) is None and not _is_unneeded(name, flow):
                what = name.replace("_", " ").replace("mac", "MAC address")
                raise BenchError(
                    f'the policy "{self.name}" needs the {_IP_NAMES.get(name, what)} of a flow',
                    fix=_FIXES[name],
                )
        return certain(team.usable[0]) if len(team.usable) == 1 else self.choose(flow, team)

    def check_team(self, team: Team) -> None:
        """Check that the policy can run on the team.

        Raises:
            BenchError: No uplink is up, or the team is too large.
        """
        if not team.usable:
            raise BenchError(
                "no uplink of the team is up, so no flow passes", fix="give a team with an uplink that is up"
            )
        if self.most_uplinks is not None and len(team.uplinks) > self.most_uplinks:
            raise BenchError(
                f'the policy "{self.name}" has at most {self.most_uplinks} uplinks, not {len(team.uplinks)}',
                fix=f"use --links 1 to --links {self.most_uplinks}",
            )


_IP_NAMES = {
    "source": "source IP address",
    "destination": "destination IP address",
    "protocol": "IP protocol",
}


def _is_unneeded(name: str, flow: Flow) -> bool:
    """Return whether packets of this flow have no such field: fragments and ping have no ports."""
    if name not in ("source_port", "destination_port"):
        return False
    has_ports = flow.protocol is None or flow.protocol in PROTOCOLS_WITH_PORTS
    return flow.is_fragmented or not has_ports


def choose_by_hash(compute_hash: Callable[[Flow, Team], int]) -> Callable[[Flow, Team], Prediction]:
    """Return a chooser that takes the hash modulo the number of uplinks that are up."""

    def choose(flow: Flow, team: Team) -> Prediction:
        return certain(team.usable[compute_hash(flow, team) % len(team.usable)])

    return choose
