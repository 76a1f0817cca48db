"""Checks of published statements: which function checks which statement, and for which workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.statements import forwarding, sockets, streams, teaming, warm_up
from vnetbench.statements.selection import TreatmentSelection, select_treatments
from vnetbench.statements.statement import (
    INCONCLUSIVE,
    Statement,
    StatementEvidence,
    StatementPart,
    Verdict,
    load_statements,
    supported_if_all,
)
from vnetbench.study.workloads import FRAMES, TCP_STREAM

_STREAM_WORKLOADS, _FRAME_WORKLOADS = (TCP_STREAM,), (FRAMES,)


def _no_measured_values(selection: TreatmentSelection) -> Iterator[StatementEvidence]:
    yield from ()


@dataclass(frozen=True)
class StatementCheck:
    """The functions that check a statement."""

    workloads: Sequence[str]
    evaluate_parts: Callable[[TreatmentSelection], tuple[StatementPart, ...]]
    find_measured_values_next_to_reported: Callable[[TreatmentSelection], Iterator[StatementEvidence]] = (
        field(default=_no_measured_values)
    )
    """Returns the values to show next to the reported value."""


CHECK_BY_STATEMENT_ID: Mapping[str, StatementCheck] = {
    "S01": StatementCheck(
        _STREAM_WORKLOADS, streams.check_peak_at_8_streams, streams.evidence_of_goodput_at_8_streams
    ),
    "S02": StatementCheck(_STREAM_WORKLOADS, streams.check_reverse_jumbo_two_modes),
    "S03": StatementCheck(_STREAM_WORKLOADS, streams.check_even_cpu_single_mode),
    "S04": StatementCheck(_STREAM_WORKLOADS, warm_up.check_most_trials_warm_up),
    "S05": StatementCheck(_STREAM_WORKLOADS, streams.check_directions_differ),
    "S06": StatementCheck(_STREAM_WORKLOADS, streams.check_rss_lowers_throughput),
    "S07": StatementCheck(_STREAM_WORKLOADS, sockets.check_each_direction_fills_link),
    "S08": StatementCheck(_STREAM_WORKLOADS, sockets.check_packet_rate_at_9gbps),
    "S09": StatementCheck(
        _STREAM_WORKLOADS, sockets.check_vcpu_independence, sockets.evidence_of_goodput_with_8_kb_buffers
    ),
    "S10": StatementCheck(_STREAM_WORKLOADS, sockets.check_connections_add_goodput),
    "S11": StatementCheck(_STREAM_WORKLOADS, sockets.check_vms_together_fill_link),
    "S12": StatementCheck(_STREAM_WORKLOADS, sockets.check_segments_exceed_25_kb),
    "S13": StatementCheck(
        _FRAME_WORKLOADS, forwarding.check_adapter_order, forwarding.evidence_of_adapter_throughputs
    ),
    "S14": StatementCheck(_FRAME_WORKLOADS, forwarding.check_loss_with_idle_cpus),
    "S15": StatementCheck(_FRAME_WORKLOADS, forwarding.check_core_sharing_lowers_throughput),
    "S16": StatementCheck(_FRAME_WORKLOADS, forwarding.check_best_queue_count_varies),
    "S17": StatementCheck(teaming.TEAM_STATEMENT_WORKLOADS, teaming.check_ip_hash_one_uplink),
    "S18": StatementCheck(teaming.TEAM_STATEMENT_WORKLOADS, teaming.check_port_id_one_uplink),
    "S19": StatementCheck(teaming.TEAM_STATEMENT_WORKLOADS, teaming.check_ip_hash_all_uplinks),
}


@dataclass(frozen=True)
class StatementResult:
    """A statement with its verdicts from several results files."""

    statement: Statement
    conclusive_or_all_verdicts: tuple[Verdict, ...]
    """Conclusive verdicts; all verdicts if none is conclusive."""

    @property
    def state(self) -> str:
        """The combined state: refuted if one file refutes the statement."""
        return supported_if_all([verdict.state for verdict in self.conclusive_or_all_verdicts])


def check_statements(summaries: Sequence[CampaignSummary]) -> tuple[StatementResult, ...]:
    """Check every statement against each campaign."""
    campaigns = [(summary, select_treatments(summary)) for summary in summaries]
    results = []
    for statement in load_statements():
        verdicts = [_build_verdict(statement, *campaign) for campaign in campaigns]
        conclusive = [verdict for verdict in verdicts if verdict.state != INCONCLUSIVE]
        results.append(StatementResult(statement, tuple(conclusive or verdicts)))
    return tuple(results)


def _build_verdict(statement: Statement, summary: CampaignSummary, selection: TreatmentSelection) -> Verdict:
    check = CHECK_BY_STATEMENT_ID[statement.id]
    if summary.represented_table is not None:
        missing = "trials, because a published value alone has no interval"
        return Verdict(statement, summary.path, (_inconclusive_part(statement, missing),))
    # A check lists its workloads by name: a statement is about one published test.
    if summary.workload not in check.workloads:
        missing = (
            f"results of the workload {' or '.join(check.workloads)}, because this file has "
            f"{summary.workload}"
        )
        return Verdict(statement, summary.path, (_inconclusive_part(statement, missing),))
    return Verdict(
        statement,
        summary.path,
        check.evaluate_parts(selection),
        selection.varying_factors,
        tuple(check.find_measured_values_next_to_reported(selection)),
    )


def _inconclusive_part(statement: Statement, missing: str) -> StatementPart:
    return StatementPart(statement.statement, INCONCLUSIVE, (), missing)
