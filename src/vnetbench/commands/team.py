"""The command group `team`: which uplink of a team each flow takes. It needs no privilege."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from vnetbench.commands.team_arguments import ASSUMPTIONS, TeamArguments

FILE_TYPE = click.Path(path_type=Path, dir_okay=False)


@click.group("team")
def team_group() -> None:
    """Predict which uplink of a team, bond or port channel each flow takes."""


@team_group.command()
@click.option(
    "--policy", metavar="NAME", help="Policy of the side that sends: see `vnetbench team policies`."
)
@click.option("--links", type=int, metavar="N", help="Number of uplinks, counted from 0.")
@click.option(
    "--state",
    "states",
    type=FILE_TYPE,
    multiple=True,
    help="File with the team's state: /proc/net/bonding/*, or the output of ovs-appctl bond/show, teamdctl"
    " state, esxcli network, or vSphere's config.network as JSON. Repeat the option for several"
    " dumps of esxcli.",
)
@click.option(
    "--team", "team_name", metavar="NAME", help="Bond or virtual switch, if the dump of --state has several."
)
@click.option(
    "--flow",
    "flow_texts",
    multiple=True,
    metavar="FLOW",
    help="SOURCE-DESTINATION: 10.0.0.1:50000-10.0.0.2:5201, [2001:db8::1]:50000..50007-[2001:db8::2]:5201;"
    " then ,vlan=20,src-mac=…,dst-mac=…,protocol=udp. Repeatable.",
)
@click.option("--pcap", type=FILE_TYPE, help="Take the flows of a packet capture (pcap or pcapng).")
@click.option("--ss", "socket_list", type=FILE_TYPE, help="Take the connections in the output of ss -tin.")
@click.option("--random", "random_count", type=int, metavar="N", help="Draw N flows between random hosts.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of --random.")
@click.option(
    "--speed", metavar="RATE", help="Speed of each uplink, such as 1G or 400M, or one for each: 10G,10G,1G."
)
@click.option(
    "--reverse-policy",
    metavar="NAME",
    help="Policy of the other side: a policy, mac-learning, active-member or unknown.  [default: the same, or"
    " mac-learning for policies without a channel]",
)
@click.option(
    "--assume",
    "assumptions",
    multiple=True,
    type=click.Choice(list(ASSUMPTIONS)),
    help="State what no file shows (see docs/team-predict.md). Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (see docs/team-predict.md).")
def predict(
    policy: str | None,
    links: int | None,
    states: Sequence[Path],
    team_name: str | None,
    flow_texts: Sequence[str],
    pcap: Path | None,
    socket_list: Path | None,
    random_count: int | None,
    seed: int,
    speed: str | None,
    reverse_policy: str | None,
    assumptions: Sequence[str],
    as_json: bool,
) -> None:
    """Predict the uplink of each flow in both directions, the load of each uplink, and better spreads.

    It sends nothing and needs no privilege.
    """
    from vnetbench.commands.team_output import print_prediction

    arguments = TeamArguments(
        policy, links, tuple(states), team_name, tuple(flow_texts), pcap, socket_list, random_count, seed,
        speed, reverse_policy, tuple(assumptions),
    )  # fmt: skip
    print_prediction(arguments, as_json=as_json)


@team_group.command("policies")
def list_policies() -> None:
    """List the policies with what they need of a flow, and what decides.

    docs/team-predict.md names the source of each rule.
    """
    from vnetbench.commands.team_output import print_policies

    print_policies()
