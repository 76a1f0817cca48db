"""Compares the predictions of team policies with real teams: `tools/in-lab python -m bench.teams`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from vnetbench.errors import BenchError
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.teams import bonding, open_vswitch_cases
from vnetbench.lab.teams.agreement import Agreement
from vnetbench.lab.teams.flows import random_flows
from vnetbench.lab.teams.guest_team import prepare_team_guest, start_guest_team
from vnetbench.lab.teams.open_vswitch import start_open_vswitch, start_open_vswitch_team

GUEST, OPEN_VSWITCH = "bonding", "openvswitch"
MIN_WIDTH = 120
"""Width of the output in characters if it is not a terminal."""


@dataclass(frozen=True)
class ComparedPolicy:
    """A policy of a real team, and how well its prediction agreed."""

    backend: str
    policy: str
    link_count: int
    agreement: Agreement


@click.command()
@click.argument("backends", nargs=-1, type=click.Choice([GUEST, OPEN_VSWITCH]))
@click.option("--flows", "flow_count", default=2000, show_default=True, type=click.IntRange(1))
@click.option(
    "--links", "link_counts", default=(3,), show_default=True, multiple=True, type=click.IntRange(2, 8)
)
@click.option("--seed", default=1, show_default=True, help="Seed of the random flows.")
def main(backends: tuple[str, ...], flow_count: int, link_counts: tuple[int, ...], seed: int) -> None:
    """Send random flows through each policy of BACKENDS, and compare their links with the predictions.

    A flow counts as undecided if the prediction depends on what the team does not show.
    """
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, emoji=False, width=max(MIN_WIDTH, console.width))
    rows: list[ComparedPolicy] = []
    try:
        for link_count in link_counts:
            for backend in backends or (GUEST, OPEN_VSWITCH):
                for row in _COMPARISON_BY_BACKEND[backend](link_count, flow_count, seed):
                    rows.append(row)
                    _print_disagreements(console, row)
    except (BenchError, TrialFailed) as error:
        console.print(str(error))
        sys.exit(1)
    finally:
        console.print(_make_table(rows))


def _compare_bonding(link_count: int, flow_count: int, seed: int) -> Iterator[ComparedPolicy]:
    prerequisites = prepare_team_guest()
    flows = random_flows(flow_count, seed)
    backend = f"bonding, Linux {prerequisites.kernel.release}"
    with start_guest_team(link_count, prerequisites) as team:
        partner = start_open_vswitch(team.testbed_name, team.source.namespace)
        for case in bonding.bonding_cases():
            agreement = bonding.measure_case(team, case, flows, partner)
            yield ComparedPolicy(backend, case.name, link_count, agreement)


def _compare_open_vswitch(link_count: int, flow_count: int, seed: int) -> Iterator[ComparedPolicy]:
    flows = random_flows(flow_count, seed)
    with start_open_vswitch_team(link_count) as team:
        backend = f"Open vSwitch {team.version}"
        for case in open_vswitch_cases.CASES:
            agreement = open_vswitch_cases.measure_case(team, case, flows)
            yield ComparedPolicy(backend, case.name, link_count, agreement)


_COMPARISON_BY_BACKEND = {GUEST: _compare_bonding, OPEN_VSWITCH: _compare_open_vswitch}


def _print_disagreements(console: Console, row: ComparedPolicy) -> None:
    for each in row.agreement.disagreements[:3]:
        console.print(
            f"{row.policy}: {each.flow} was carried by {each.carried_by}, predicted {each.predicted}",
            markup=False,
        )


def _make_table(rows: list[ComparedPolicy]) -> Table:
    table = Table(title="Predicted uplink = uplink that carried the flow")
    for heading in ("team", "policy"):
        table.add_column(heading)
    for heading in ("links", "flows", "agreement", "disagree", "undecided", "lost", "links used"):
        table.add_column(heading, justify="right")
    for row in rows:
        found = row.agreement
        decided = found.flow_count - found.undecided_count
        table.add_row(
            row.backend,
            row.policy,
            str(row.link_count),
            str(found.flow_count),
            f"{100 * found.agreed_count / decided:.2f} %" if decided else "none predicted",
            str(len(found.disagreements)),
            str(found.undecided_count),
            str(found.lost_count),
            str(found.used_member_count),
        )
    return table


if __name__ == "__main__":
    main()
