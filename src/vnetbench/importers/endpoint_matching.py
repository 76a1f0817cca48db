"""Find runs that two logs report, one from each endpoint. Each pair becomes one trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.importers.run_store import RunSummary
from vnetbench.importers.runs import Run
from vnetbench.study.model import Level

SENDER, RECEIVER = "sender", "receiver"

SenderRunIdByReceiverRunId = dict[int, int]
"""The run that the sender reports, by the same run as the receiver reports it."""

_RELATIVE_TOLERANCE = 0.1
"""Relative difference that durations and goodputs of the two endpoints may have."""
_DURATION_TOLERANCE_IF_SAME_CONNECTION = 0.3
"""The same for durations if the connection is equal: the end of a short run takes a larger share of it."""


def match_sender_runs_to_receiver_runs(runs: Sequence[RunSummary]) -> SenderRunIdByReceiverRunId:
    """Return the id of each run that a receiver reports and a sender too, with the id of the sender's run.

    If the logs name connections, these decide. Otherwise two logs match if one has as many runs from the
    sender as the other has from the receiver, of the same tool. Runs at the same position must also agree in
    everything that both report: factors, duration and goodput.
    """
    return {
        **_match_senders_by_connection([run for run in runs if run.first_connection_addresses]),
        **_match_senders_by_whole_log([run for run in runs if not run.first_connection_addresses]),
    }


def _match_senders_by_connection(runs: Sequence[RunSummary]) -> SenderRunIdByReceiverRunId:
    """Match runs of equal connections.

    Ports are reused over time, so factors and durations must agree as well.

    A log that has the results of both endpoints counts as the other endpoint of the one it is matched with.
    """
    by_connection: dict[tuple[str, str], list[RunSummary]] = defaultdict(list)
    for run in runs:
        by_connection[run.tool, run.first_connection_addresses].append(run)
    matches: SenderRunIdByReceiverRunId = {}
    for candidates in by_connection.values():
        while one := next((run for run in candidates if run.reported_by), None):
            candidates.remove(one)
            others = (each for each in candidates if each.reported_by != one.reported_by)
            other = next((each for each in others if _do_factors_and_durations_agree(one, each)), None)
            if other is not None:
                candidates.remove(other)
                received, sent = (one, other) if one.reported_by == RECEIVER else (other, one)
                matches[received.run_id] = sent.run_id
    return matches


def _match_senders_by_whole_log(runs: Sequence[RunSummary]) -> SenderRunIdByReceiverRunId:
    runs_by_log: dict[tuple[str, str, str], list[RunSummary]] = defaultdict(list)
    for run in runs:
        runs_by_log[run.log_name, run.tool, run.reported_by].append(run)
    senders = {key: each for key, each in runs_by_log.items() if key[2] == SENDER}
    matches: SenderRunIdByReceiverRunId = {}
    for (log, tool, endpoint), received in runs_by_log.items():
        if endpoint != RECEIVER:
            continue
        for key, sent in senders.items():
            if key[:2] != (log, tool) and key[1] == tool and _do_logs_match(sent, received):
                matches |= {one.run_id: other.run_id for one, other in zip(received, sent, strict=True)}
                del senders[key]
                break
    return matches


def merge_endpoint_runs(receiver_run: Run, sender_run: Run, sender_log: str) -> Run:
    """Return one run with the results of both endpoints. The receiver's take precedence."""
    source = f"{sender_log} line {sender_run.first_line}"
    return replace(
        receiver_run,
        factors={**sender_run.factors, **receiver_run.factors},
        metrics={**sender_run.metrics, **receiver_run.metrics},
        other_results={**sender_run.other_results, **receiver_run.other_results},
        command=receiver_run.command or sender_run.command,
        reported_by="",
        remarks=(  # The sender's remarks are about results that its own log lacks, and that are here.
            *receiver_run.remarks,
            f"Results that are missing in the receiver's log are from the sender's log ({source}).",
        ),
    )


def _do_logs_match(sender_runs: Sequence[RunSummary], receiver_runs: Sequence[RunSummary]) -> bool:
    return len(sender_runs) == len(receiver_runs) and all(map(_do_runs_match, sender_runs, receiver_runs))


def _do_factors_and_durations_agree(one: RunSummary, other: RunSummary) -> bool:
    durations = one.measured_duration_s or 0.0, other.measured_duration_s or 0.0
    return _have_consistent_factors(one.factors, other.factors) and _is_close(
        *durations, _DURATION_TOLERANCE_IF_SAME_CONNECTION
    )


def _do_runs_match(one: RunSummary, other: RunSummary) -> bool:
    pairs = ((one.measured_duration_s, other.measured_duration_s), (one.goodput_bps, other.goodput_bps))
    known_pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known_pairs or not _have_consistent_factors(one.factors, other.factors):
        return False
    return all(_is_close(a, b) for a, b in known_pairs)


def _have_consistent_factors(one: Mapping[str, Level], other: Mapping[str, Level]) -> bool:
    return all(other.get(name, level) == level for name, level in one.items())


def _is_close(one: float, other: float, relative_tolerance: float = _RELATIVE_TOLERANCE) -> bool:
    return abs(one - other) <= relative_tolerance * max(abs(one), abs(other))
