"""Which function checks which statement, for which workloads; and campaigns held against all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.statements import forwarding, sockets, streams, teaming, warm_up
from vnetbench.statements.selection import TreatmentSelection, seen
from vnetbench.statements.statement import (
    CANNOT_TELL,
    StatementEvidence,
    StatementPart,
    Statement,
    Verdict,
    combine_all,
    load_statements,
)
from vnetbench.study.workloads import FRAMES, TCP_STREAM, WORKLOADS

_OF_STREAMS, _OF_FRAMES = (TCP_STREAM,), (FRAMES,)


def _nothing(found: TreatmentSelection) -> Iterator[StatementEvidence]:
    yield from ()


@dataclass(frozen=True)
class StatementCheck:
    """How a statement is checked."""

    workloads: Sequence[str]
    parts: Callable[[TreatmentSelection], tuple[StatementPart, ...]]
    reported_values: Callable[[TreatmentSelection], Iterator[StatementEvidence]] = field(default=_nothing)
    """Figures that stand beside the number of the report."""


CHECKS: Mapping[str, StatementCheck] = {
    "S01": StatementCheck(_OF_STREAMS, streams.peak_at_eight, streams.goodput_at_eight),
    "S02": StatementCheck(_OF_STREAMS, streams.two_modes),
    "S03": StatementCheck(_OF_STREAMS, streams.stable_when_pinned),
    "S04": StatementCheck(_OF_STREAMS, warm_up.first_seconds),
    "S05": StatementCheck(_OF_STREAMS, streams.directions_differ),
    "S06": StatementCheck(_OF_STREAMS, streams.rss_lowers),
    "S07": StatementCheck(_OF_STREAMS, sockets.both_ways_at_wire),
    "S08": StatementCheck(_OF_STREAMS, sockets.packets_at_nine),
    "S09": StatementCheck(_OF_STREAMS, sockets.latency_bound, sockets.goodput_of_8_kb),
    "S10": StatementCheck(_OF_STREAMS, sockets.connections_scale),
    "S11": StatementCheck(_OF_STREAMS, sockets.vms_fill_the_wire),
    "S12": StatementCheck(_OF_STREAMS, sockets.segments_are_large),
    "S13": StatementCheck(_OF_FRAMES, forwarding.adapters_in_order, forwarding.throughputs),
    "S14": StatementCheck(_OF_FRAMES, forwarding.idle_cpus_lose),
    "S15": StatementCheck(_OF_FRAMES, forwarding.shared_core_limits),
    "S16": StatementCheck(_OF_FRAMES, forwarding.queues_depend),
    "S17": StatementCheck(WORKLOADS, teaming.one_uplink_by_address),
    "S18": StatementCheck(WORKLOADS, teaming.one_uplink_by_port),
    "S19": StatementCheck(WORKLOADS, teaming.spread_by_address),
}


@dataclass(frozen=True)
class StatementResult:
    """A statement with what each of several results files says of it."""

    statement: Statement
    verdicts: tuple[Verdict, ...]
    """Of the files that tell; of all of them where none does."""

    @property
    def state(self) -> str:
        """Of all files that tell together: refuted where one refutes it."""
        return combine_all([verdict.state for verdict in self.verdicts])


def check_statements(summaries: Sequence[CampaignSummary]) -> tuple[StatementResult, ...]:
    """Every statement held against each campaign."""
    campaigns = [(summary, seen(summary)) for summary in summaries]
    found = []
    for statement in load_statements():
        verdicts = [_verdict(statement, *campaign) for campaign in campaigns]
        telling = [verdict for verdict in verdicts if verdict.state != CANNOT_TELL]
        found.append(StatementResult(statement, tuple(telling or verdicts)))
    return tuple(found)


def _verdict(statement: Statement, summary: CampaignSummary, found: TreatmentSelection) -> Verdict:
    way = CHECKS[statement.id]
    if summary.reference is not None:
        parts = (_without(statement, "trials: a published figure by itself has no interval"),)
        return Verdict(statement, summary.path, parts)
    if summary.workload not in way.workloads:
        lacks = f"the workload {' or '.join(way.workloads)}; here it is {summary.workload}"
        return Verdict(statement, summary.path, (_without(statement, lacks),))
    return Verdict(statement, summary.path, way.parts(found), found.varying, tuple(way.reported_values(found)))


def _without(statement: Statement, missing: str) -> StatementPart:
    return StatementPart(statement.statement, CANNOT_TELL, (), missing)
