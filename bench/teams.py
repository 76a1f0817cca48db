"""Compares the predictions of team policies with real teams: `tools/in-lab python -m bench.teams`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import click
from rich import box
from rich.console import Console
from rich.table import Table

from bench.terminal import exit_on_sigterm, make_console
from vnetbench.errors import BenchError
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.netns.bpf_policies import find_predicted_policy
from vnetbench.lab.netns.open_vswitch_bonds import start_open_vswitch
from vnetbench.lab.teams import bonding, open_vswitch_cases
from vnetbench.lab.teams.agreement import Agreement
from vnetbench.lab.teams.bonding import BondingCase
from vnetbench.lab.teams.bpf import measure_policy, start_bpf_team
from vnetbench.lab.teams.flows import random_flows
from vnetbench.lab.teams.guest_team import prepare_team_guest, start_guest_team
from vnetbench.lab.teams.open_vswitch import start_open_vswitch_team
from vnetbench.lab.teams.open_vswitch_cases import OpenVswitchCase
from vnetbench.study.teams import BPF_POLICIES
from vnetbench.teaming.policies.registry import find_policy

GUEST, OPEN_VSWITCH, BPF = "bonding", "openvswitch", "bpf"
GUEST_ADAPTERS = ("virtio-net", "vmxnet3", "e1000e")
"""Adapters with which QEMU has been seen to carry teams."""
DETERMINISTIC_DECIDERS = ("hash", "active member")
MIN_AGREEMENT, MIN_OTHER_AGREEMENT = 1.0, 0.99
"""Aims for the share of the predicted flows: of policies with these deciders, and of the others.

A switch may change its table between its reading and a flow. Where members take turns, a frame of the guest
may take one at the same time.
"""


@dataclass(frozen=True)
class ComparedPolicy:
    """A policy of a real team, and how well its prediction agreed."""

    backend: str
    policy: str
    link_count: int
    agreement: Agreement
    decider: str
    """What decides the link (`Policy.decider`)."""

    @property
    def aim(self) -> float:
        """Aim for the share of the predicted flows."""
        return MIN_AGREEMENT if self.decider in DETERMINISTIC_DECIDERS else MIN_OTHER_AGREEMENT

    @property
    def ratio(self) -> float | None:
        """Share of flows that their predicted link carried; None if the load decides for all.

        Only where the load decides, undecided flows do not count.
        """
        depends_on_load = self.decider not in (*DETERMINISTIC_DECIDERS, "table")
        predicted = self.agreement.flow_count - (self.agreement.undecided_count if depends_on_load else 0)
        return self.agreement.agreed_count / predicted if predicted else None

    @property
    def is_met(self) -> bool:
        """Whether the aim is met, or does not apply because the load decides for all flows."""
        return self.ratio is None or self.ratio >= self.aim


Comparison = Callable[[int, int, int], Iterator[ComparedPolicy]]
"""Compares all policies of a backend, for a number of links, a number of flows and a seed."""


@click.command()
@click.argument("backends", nargs=-1, type=click.Choice([GUEST, OPEN_VSWITCH, BPF]))
@click.option("--flows", "flow_count", default=2000, show_default=True, type=click.IntRange(1))
@click.option(
    "--links", "link_counts", default=(3,), show_default=True, multiple=True, type=click.IntRange(2, 8)
)
@click.option("--seed", default=1, show_default=True, help="Seed of the random flows.")
@click.option(
    "--adapter", default="virtio-net", show_default=True, type=click.Choice(list(GUEST_ADAPTERS)),
    help="Adapter of the guest's links.",
)  # fmt: skip
def main(
    backends: tuple[str, ...], flow_count: int, link_counts: tuple[int, ...], seed: int, adapter: str
) -> None:
    """Send random flows through each policy of BACKENDS, and compare their links with the predictions.

    A flow counts as undecided if the prediction depends on what the team does not show.
    """
    console = make_console()
    exit_on_sigterm()
    compare_by_backend: dict[str, Comparison] = {
        GUEST: partial(_compare_bonding, adapter=adapter),
        OPEN_VSWITCH: _compare_open_vswitch,
        BPF: _compare_bpf,
    }
    rows: list[ComparedPolicy] = []
    try:
        for link_count in link_counts:
            for backend in backends or compare_by_backend:
                for row in compare_by_backend[backend](link_count, flow_count, seed):
                    rows.append(row)
                    _print_disagreements(console, row)
    except (BenchError, TrialFailed) as error:
        console.print(str(error))
        sys.exit(1)
    finally:
        console.print(_make_table(rows))
    if not all(row.is_met for row in rows):
        sys.exit(1)


def _compare_bonding(link_count: int, flow_count: int, seed: int, adapter: str) -> Iterator[ComparedPolicy]:
    prerequisites = prepare_team_guest(adapter)
    flows = random_flows(flow_count, seed)
    backend = f"Linux {prerequisites.kernel.release}, {adapter}"
    with start_guest_team(link_count, prerequisites, adapter) as team:
        partner = start_open_vswitch(team.testbed_name, team.source.namespace)
        for case in bonding.bonding_cases():
            agreement = bonding.measure_case(team, case, flows, partner)
            yield ComparedPolicy(backend, case.name, link_count, agreement, _decider(case))


def _compare_open_vswitch(link_count: int, flow_count: int, seed: int) -> Iterator[ComparedPolicy]:
    flows = random_flows(flow_count, seed)
    with start_open_vswitch_team(link_count) as team:
        backend = f"Open vSwitch {team.version}"
        for case in open_vswitch_cases.CASES:
            agreement = open_vswitch_cases.measure_case(team, case, flows)
            yield ComparedPolicy(backend, case.name, link_count, agreement, _decider(case))


def _compare_bpf(link_count: int, flow_count: int, seed: int) -> Iterator[ComparedPolicy]:
    flows = random_flows(flow_count, seed)
    with start_bpf_team(link_count) as team:
        for name in BPF_POLICIES:
            agreement = measure_policy(team, name, flows)
            yield ComparedPolicy("BPF", name, link_count, agreement, find_predicted_policy(name).decider)


def _decider(case: BondingCase | OpenVswitchCase) -> str:
    is_hashed = isinstance(case, BondingCase) and not case.has_dynamic_load_balancing
    return "hash" if is_hashed else find_policy(case.policy).decider


def _print_disagreements(console: Console, row: ComparedPolicy) -> None:
    for each in row.agreement.disagreements[:3]:
        console.print(
            f"{row.policy}: {each.flow} was carried by {each.carried_by}, predicted {each.predicted}",
            markup=False,
        )


def _aim_text(row: ComparedPolicy) -> str:
    if row.ratio is None:
        return "none"
    return "met" if row.is_met else "missed"


def _make_table(rows: list[ComparedPolicy]) -> Table:
    table = Table(
        title="Predicted link = link that carried the flow", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for heading in ("team", "policy"):
        table.add_column(heading, no_wrap=True)
    for heading in ("links", "flows", "agreement", "aim", "disagree", "undecided", "lost", "links used"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        found, ratio = row.agreement, row.ratio
        table.add_row(
            row.backend,
            row.policy,
            str(row.link_count),
            str(found.flow_count),
            "none predicted" if ratio is None else f"{100 * ratio:.2f} %",
            _aim_text(row),
            str(len(found.disagreements)),
            str(found.undecided_count),
            str(found.lost_count),
            str(found.used_member_count),
        )
    return table


if __name__ == "__main__":
    main()
