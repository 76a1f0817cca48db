"""Waiting that a cause leaves unexplained lowers the confidence in it."""

from __future__ import annotations

import pytest

from tests.explain.campaigns import Evidence
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.time_accounting.time_uses import TIME_USE_BY_NAME
from vnetbench.explain.rules import load_rules
from vnetbench.explain.scoring import rank_causes
from vnetbench.explain.waits import leaves_most_waiting_unexplained, load_waits
from vnetbench.study.workloads import TCP_RR, TCP_STREAM, UDP_STREAM

pytestmark = pytest.mark.pure

LOSS: Evidence = {"path_loss_percent": 1.0, "spurious_retransmit_percent": 0.0, "overlimits_per_s": 0.0}


def confidence_in_loss(workload: str = TCP_STREAM, **time: float) -> str:
    (candidate, *_) = rank_causes([{**LOSS, **time}] * 3, load_rules(), workload).candidates
    assert candidate.cause.name == "path_loss"
    return candidate.confidence


def test_the_table_names_known_causes_metrics_and_workloads() -> None:
    table = load_waits()
    assert table.time_metrics_lengthened_by_cause.keys() <= load_rules().keys()
    assert set(table.wait_metrics) <= EVIDENCE_METRICS.keys()
    assert {
        metric for own in table.time_metrics_lengthened_by_cause.values() for metric in own
    } <= EVIDENCE_METRICS.keys()
    assert all(table.time_metrics_lengthened_by_cause.values())


def test_every_use_of_time_of_the_network_is_a_wait_or_work() -> None:
    work = {"packet_processing", "virtual_switch"}
    network = {f"time_{use.name}_percent" for use in TIME_USE_BY_NAME.values() if use.part == "network"}
    assert network - set(load_waits().wait_metrics) == {f"time_{name}_percent" for name in work}


def test_loss_is_very_likely_if_streams_wait_for_its_recovery() -> None:
    assert confidence_in_loss(time_loss_recovery_percent=60, time_queueing_percent=20) == "very likely"


def test_loss_is_less_likely_if_streams_wait_mostly_in_a_queue() -> None:
    assert confidence_in_loss(time_loss_recovery_percent=2, time_queueing_percent=70) == "likely"


def test_without_a_time_accounting_the_score_alone_decides() -> None:
    assert confidence_in_loss() == "very likely"


def test_datagrams_do_not_wait_for_what_was_lost() -> None:
    assert confidence_in_loss(UDP_STREAM, time_queueing_percent=70) == "very likely"


def test_work_explains_itself_as_long_as_waits_are_shorter() -> None:
    busy: Evidence = {"cpu_work_time_percent": 60.0, "programs_time_percent": 30.0}
    assert not leaves_most_waiting_unexplained("sender_cpu", [busy], TCP_STREAM)
    assert leaves_most_waiting_unexplained("sender_cpu", [{**busy, "time_queueing_percent": 40}], TCP_STREAM)


def test_a_cause_that_no_use_of_time_shows_is_not_checked() -> None:
    assert not leaves_most_waiting_unexplained("overflow", [{"time_queueing_percent": 90}], TCP_RR)
