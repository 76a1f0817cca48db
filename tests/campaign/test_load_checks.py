"""Checks of a trial's load: refusals by agents, and deviating sockets, threads and rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from vnetbench.agents.client import AgentError
from vnetbench.campaign.load_checks import (
    check_and_return_socket_settings,
    check_and_return_thread_cpus,
    check_pacing_and_load,
    refusal_from_agent_error,
    sum_zero_copy_counts,
)
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.results.records import EndpointRecord, Sample, StreamSample

RATE_BPS = 10**9


def test_threads_on_other_cpus_are_refused() -> None:
    assert check_and_return_thread_cpus({"a1": ["0", "0-1"]}, {"a1": ["0", "1,0"]})
    with pytest.raises(TreatmentRefused, match="threads were placed on the CPUs 0 0 instead of 0 1"):
        check_and_return_thread_cpus({"a1": ["0", "1"]}, {"a1": ["0", "0"]})


def test_a_stream_that_falls_back_from_mptcp_is_refused_before_and_after_the_load() -> None:
    mptcp, fallback = ({"id": i, "transport": name} for i, name in enumerate(("mptcp", "tcp")))
    levels = {"transport": "mptcp"}
    assert check_and_return_socket_settings(levels, [mptcp])["transport"] == "mptcp"
    with pytest.raises(TreatmentRefused, match="stream 1 fell back to TCP"):
        check_and_return_socket_settings(levels, [mptcp, fallback])
    assert check_pacing_and_load(levels, 1.0, [make_endpoint("a1", "source", (), streams=[mptcp])]) == []
    with pytest.raises(TreatmentRefused, match="stream 1 fell back to TCP") as refused:
        endpoints = [
            make_endpoint("a1", "source", (), streams=[mptcp]),
            make_endpoint("b1", "sink", (), streams=[fallback]),
        ]
        check_pacing_and_load(levels, 1.0, endpoints)
    assert "nstat" in str(refused.value.fix)


def test_a_pacing_rate_that_the_kernel_changes_is_refused() -> None:
    assert check_and_return_socket_settings({"pacing_rate": 1_000_001}, [{"pacing_rate_bps": 1_000_000}])
    for actual_bps in (None, 2 * 10**6):
        with pytest.raises(TreatmentRefused, match="pacing_rate = 1 Mbit/s had no effect"):
            check_and_return_socket_settings(
                {"pacing_rate": 10**6}, [{"pacing_rate_bps": 10**6}, {"pacing_rate_bps": actual_bps}]
            )


@pytest.mark.parametrize(
    ("share", "note_text"),
    [(1.0, ""), (1.04, ""), (0.8, "the mean of the streams is 800 Mbit/s"), (1.3, None)],
)
def test_the_receive_rate_of_paced_streams_is_checked(share: float, note_text: str | None) -> None:
    endpoints = [
        make_endpoint("a1", "source", paced_samples("source", 9.0)),
        make_endpoint("b1", "sink", paced_samples("sink", share)),
    ]
    levels = {"pacing_rate": RATE_BPS}
    if note_text is None:
        with pytest.raises(TreatmentRefused, match=r"was exceeded: a stream arrived at 1\.30 Gbit/s"):
            check_pacing_and_load(levels, 1.0, endpoints)
    else:
        assert [note_text in note for note in check_pacing_and_load(levels, 1.0, endpoints)] == [True] * bool(
            note_text
        )


def make_endpoint(name: str, role: str, samples: Sequence[Sample], **totals: object) -> EndpointRecord:
    return EndpointRecord(name, role, totals, tuple(samples))


def paced_samples(role: str, share: float) -> list[Sample]:
    """Return samples of 1 s at a share of the rate. The last two contain unpaced data."""
    sizes = [round(share * RATE_BPS * 0.1 / 8)] * 9 + [RATE_BPS, RATE_BPS]
    return [
        Sample(i, 0.1 * (i + 1), 0.1, 0, 0, {}, streams=(StreamSample(0, role, size, None, None, None),))
        for i, size in enumerate(sizes)
    ]


def make_refusal(kind: str, code: int = -32001, message: str = "no") -> TreatmentRefused:
    refusal = refusal_from_agent_error(
        AgentError("a1", message, code, {"operation": "do it", "kind": kind}), "a1"
    )
    assert refusal is not None
    return refusal


@pytest.mark.parametrize(
    ("kind", "limit", "fix"), [("open_files", "open files", "ulimit -n"), ("threads", "threads", "ulimit -u")]
)
def test_a_limit_of_the_process_is_refused_with_the_command_that_raises_it(
    kind: str, limit: str, fix: str
) -> None:
    refusal = make_refusal(kind)
    assert refusal.what == f"the limit of {limit} is too low for this number of streams: no"
    assert refusal.where == "a1"
    assert fix in str(refusal.fix)


def test_a_datagram_that_does_not_arrive_refuses_the_treatment() -> None:
    message = "delivering a datagram of 9000 bytes (no datagram arrives) took longer than 5 s"
    refusal = make_refusal("datagram", -32004, message)
    assert refusal.what == message and "datagram_size" in str(refusal.fix)


@pytest.mark.parametrize("call", ["io_uring", "io_uring's SEND_ZC", "MSG_ZEROCOPY"])
def test_an_unsupported_send_mode_is_refused_with_a_fix(call: str) -> None:
    refusal = make_refusal(
        "send_mode", message=f"the system refused to send by {call}: Operation not permitted"
    )
    assert call in refusal.what
    assert refusal.where == "a1"
    assert "io_uring_disabled" in str(refusal.fix)


@pytest.mark.parametrize(
    ("kind", "message", "fix"),
    [
        ("congestion_control_absent", "the kernel does not support", "modprobe tcp_NAME"),
        ("congestion_control_forbidden", "this user is not allowed to use", "run as root"),
    ],
)
def test_the_refusal_of_a_congestion_control_gives_the_reason(kind: str, message: str, fix: str) -> None:
    refusal = make_refusal(kind)
    assert refusal.what == f"{message} this congestion control"
    assert refusal.where == "congestion_control"
    assert fix in str(refusal.fix)


@pytest.mark.parametrize("kind", [{}, {"kind": None}, {"kind": "busy"}, {"kind": "unknown"}])
def test_other_errors_are_not_refusals(kind: dict[str, str | None]) -> None:
    data = {"operation": "set the congestion control bbr", "errno": 2}
    assert refusal_from_agent_error(AgentError("a1", "x", -32001, {**data, **kind}), "a1") is None


def zero_copy_totals(**counts: int) -> dict[str, Any]:
    streams = [{"id": 0, "zero_copy": counts}] if counts else [{"id": 0}]
    return {"drained": True, "streams": streams}


def test_zero_copy_counts_are_summed_over_all_streams() -> None:
    totals = [
        zero_copy_totals(in_place=1, copied=2, uncompleted=0),
        zero_copy_totals(),
        zero_copy_totals(in_place=3, copied=0, uncompleted=5),
    ]
    assert sum_zero_copy_counts(totals) == {"in_place": 4, "copied": 2, "uncompleted": 5}
    assert sum_zero_copy_counts([zero_copy_totals()]) is None
