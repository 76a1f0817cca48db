"""Statements about teams of uplinks with ESXi's policies: how many uplinks the bytes of VMs use.

Which policy a trial had is what its team reported. How many links it used is what the counters of the links
show (`estimate/team_traffic.py`), of the near end, which sends what the first VMs of the pairs send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from vnetbench.estimate.team_traffic import TeamTraffic
from vnetbench.statements.claims import (
    build_statement_part,
    claim_at_least,
    claim_at_most,
    evaluate_claim,
    value_evidence,
)
from vnetbench.statements.selection import (
    MeasuredTreatment,
    TreatmentSelection,
    level_is_between,
    level_is_one_of,
)
from vnetbench.statements.statement import REFUTED, StatementEvidence, StatementPart
from vnetbench.study.workloads import MIXED, TCP_RR, TCP_STREAM, UDP_STREAM

IP_HASH, PORT_ID = "ip-hash", "port-id"
TEAM_STATEMENT_WORKLOADS = (TCP_STREAM, UDP_STREAM, TCP_RR, MIXED)
"""Workloads whose flows stay the same for the whole trial, with no event that moves them."""
_USED_LINKS_METRIC = "team_links_used_forward"
_ONE_PAIR = level_is_one_of("pairs", 1, phrase="1 pair of VMs")
_SEVERAL_STREAMS = level_is_between("streams", 2, 1e9, "2 streams or more")
"""A single stream uses one uplink whatever the policy is."""


def check_ip_hash_one_uplink(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S17: traffic of one source and one destination uses one uplink with IP hash."""
    return (_check_one_uplink(selection, IP_HASH, "all streams of one pair of VMs use one uplink"),)


def check_port_id_one_uplink(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S18: traffic of one vNIC uses one uplink with originating port ID."""
    return (_check_one_uplink(selection, PORT_ID, "all streams of one vNIC use one uplink"),)


def check_ip_hash_all_uplinks(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S19: traffic of one source to many destinations uses all uplinks with IP hash."""
    selected = _keep_policy(selection, IP_HASH)
    several = _keep_teams(
        selected,
        lambda treatment, team: float(treatment.levels.get("pairs", 0)) >= len(team.links),
        "at least one pair of VMs for each uplink",
    )
    spread = _keep_teams(
        several,
        lambda _, team: all(link.forward.predicted_flows != 0 for link in team.links),
        "addresses that IP hash puts on all uplinks",
    )
    evidence = [_all_links_evidence(each) for each in spread.treatments]
    return (build_statement_part("several pairs of VMs use all uplinks", evidence, spread.missing),)


def _check_one_uplink(selection: TreatmentSelection, policy: str, claim: str) -> StatementPart:
    selected = _keep_policy(selection, policy).keep_treatments_meeting(_ONE_PAIR, _SEVERAL_STREAMS)
    return build_statement_part(
        claim, [_one_link_evidence(each) for each in selected.treatments], selected.missing
    )


def _keep_policy(selection: TreatmentSelection, policy: str) -> TreatmentSelection:
    """Select the treatments whose team had this policy in each trial."""
    with_metric = selection.keep_treatments_with_metrics(_USED_LINKS_METRIC)
    return _keep_teams(with_metric, lambda _, team: team.policy == policy, f"a team with the policy {policy}")


def _keep_teams(
    selection: TreatmentSelection, is_kept: Callable[[MeasuredTreatment, TeamTraffic], bool], phrase: str
) -> TreatmentSelection:
    """Select the treatments whose team is kept in each trial; `phrase` says what is missing otherwise."""
    kept = tuple(
        each
        for each in selection.treatments
        if _first_teams(each) and all(is_kept(each, team) for team in _first_teams(each))
    )
    missing = phrase if selection.treatments else selection.missing
    return replace(selection, treatments=kept, missing="" if kept else missing)


def _first_teams(treatment: MeasuredTreatment) -> list[TeamTraffic]:
    """Return the team of each trial that the metrics describe."""
    return [point.teams[0] for point in treatment.treatment.points if point.teams]


def _one_link_evidence(treatment: MeasuredTreatment) -> StatementEvidence:
    estimate = treatment.treatment.metrics[_USED_LINKS_METRIC]
    # "Never more than one": one trial with more refutes it.
    state = REFUTED if max(_used_links(treatment)) > 1 else evaluate_claim(estimate, claim_at_most(1))
    return value_evidence(treatment, _USED_LINKS_METRIC, state)


def _all_links_evidence(treatment: MeasuredTreatment) -> StatementEvidence:
    count = max(len(team.links) for team in _first_teams(treatment))
    state = evaluate_claim(treatment.treatment.metrics[_USED_LINKS_METRIC], claim_at_least(count))
    return value_evidence(treatment, _USED_LINKS_METRIC, state, note=f"of {count} uplinks")


def _used_links(treatment: MeasuredTreatment) -> Iterator[float]:
    return (
        point.values[_USED_LINKS_METRIC]
        for point in treatment.treatment.points
        if _USED_LINKS_METRIC in point.values
    )
