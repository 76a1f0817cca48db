"""What is held against a trial: what was refused, and sockets, threads and rates that are not as asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from vnetbench.agents.client import AgentError
from vnetbench.campaign.load_checks import (
    check_load,
    check_streams,
    check_threads,
    refusal_from_error,
    zero_copy_counts,
)
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.results.records import EndpointRecord, Sample, StreamSample

RATE_BPS = 10**9


def test_threads_that_the_kernel_put_elsewhere_are_refused() -> None:
    assert check_threads({"a1": ["0", "0-1"]}, {"a1": ["0", "1,0"]})
    with pytest.raises(TreatmentRefused, match="threads were placed on the CPUs 0 0 instead of 0 1"):
        check_threads({"a1": ["0", "1"]}, {"a1": ["0", "0"]})


def test_a_stream_that_is_not_mptcp_is_refused_at_the_beginning_and_at_the_end() -> None:
    kept, fallen = ({"id": i, "transport": name} for i, name in enumerate(("mptcp", "tcp")))
    asked = {"transport": "mptcp"}
    assert check_streams(asked, [kept])["transport"] == "mptcp"
    with pytest.raises(TreatmentRefused, match="stream 1 fell back to TCP"):
        check_streams(asked, [kept, fallen])
    assert check_load(asked, 1.0, [side("a1", "source", (), streams=[kept])]) == []
    with pytest.raises(TreatmentRefused, match="stream 1 fell back to TCP") as fallen_back:
        both = [side("a1", "source", (), streams=[kept]), side("b1", "sink", (), streams=[fallen])]
        check_load(asked, 1.0, both)
    assert "nstat" in str(fallen_back.value.fix)


def test_a_pacing_rate_that_the_kernel_did_not_keep_is_refused() -> None:
    assert check_streams({"pacing_rate": 1_000_001}, [{"pacing_rate_bps": 1_000_000}])
    for found in (None, 2 * 10**6):
        with pytest.raises(TreatmentRefused, match="pacing_rate = 1 Mbit/s had no effect"):
            check_streams({"pacing_rate": 10**6}, [{"pacing_rate_bps": 10**6}, {"pacing_rate_bps": found}])


@pytest.mark.parametrize(
    ("share", "remark"),
    [(1.0, ""), (1.04, ""), (0.8, "their mean is 800 Mbit/s"), (1.3, None)],
)
def test_what_arrives_of_paced_streams_is_held_against_their_rate(share: float, remark: str | None) -> None:
    sides = [
        side("a1", "source", paced_samples("source", 9.0)), side("b1", "sink", paced_samples("sink", share))
    ]  # fmt: skip
    asked = {"pacing_rate": RATE_BPS}
    if remark is None:
        with pytest.raises(TreatmentRefused, match=r"was exceeded: 1\.30 Gbit/s arrived"):
            check_load(asked, 1.0, sides)
    else:
        assert [remark in note for note in check_load(asked, 1.0, sides)] == [True] * bool(remark)


def side(endpoint: str, role: str, samples: Sequence[Sample], **totals: object) -> EndpointRecord:
    return EndpointRecord(endpoint, role, totals, tuple(samples))


def paced_samples(role: str, share: float) -> list[Sample]:
    """Those of a second at so much of the rate; what comes at its end is what was let go of."""
    sizes = [round(share * RATE_BPS * 0.1 / 8)] * 9 + [RATE_BPS, RATE_BPS]
    return [
        Sample(i, 0.1 * (i + 1), 0.1, 0, 0, {}, streams=(StreamSample(0, role, size, None, None, None),))
        for i, size in enumerate(sizes)
    ]


def refused(kind: str, code: int = -32001, message: str = "no") -> TreatmentRefused:
    refusal = refusal_from_error(AgentError("a1", message, code, {"operation": "do it", "kind": kind}), "a1")
    assert refusal is not None
    return refusal


@pytest.mark.parametrize(
    ("kind", "limit", "fix"), [("open_files", "open files", "ulimit -n"), ("threads", "threads", "ulimit -u")]
)
def test_a_limit_of_the_process_is_refused_with_how_to_raise_it(kind: str, limit: str, fix: str) -> None:
    refusal = refused(kind)
    assert refusal.what == f"the limit of {limit} is too low for this number of streams: no"
    assert refusal.where == "a1"
    assert fix in str(refusal.fix)


def test_a_datagram_that_does_not_get_through_refuses_the_treatment() -> None:
    message = "getting a datagram of 9000 bytes through (none gets through) took longer than 5 s"
    refusal = refused("datagram", -32004, message)
    assert refusal.what == message and "datagram_size" in str(refusal.fix)


@pytest.mark.parametrize("call", ["io_uring", "io_uring's SEND_ZC", "MSG_ZEROCOPY"])
def test_a_send_mode_that_the_kernel_lacks_is_refused_with_the_fix(call: str) -> None:
    refusal = refused("send_mode", message=f"the system refused to send by {call}: Operation not permitted")
    assert call in refusal.what
    assert refusal.where == "a1"
    assert "io_uring_disabled" in str(refusal.fix)


@pytest.mark.parametrize(
    ("kind", "what", "fix"),
    [
        ("congestion_control_absent", "the kernel does not support", "modprobe tcp_NAME"),
        ("congestion_control_forbidden", "this user is not allowed to use", "run as root"),
    ],
)
def test_a_congestion_control_that_cannot_be_had_is_refused_by_why(kind: str, what: str, fix: str) -> None:
    refusal = refused(kind)
    assert refusal.what == f"{what} this congestion control"
    assert refusal.where == "congestion_control"
    assert fix in str(refusal.fix)


@pytest.mark.parametrize("kind", [{}, {"kind": None}, {"kind": "busy"}, {"kind": "unheard of"}])
def test_another_fault_is_no_refusal_whatever_its_words(kind: dict[str, str | None]) -> None:
    words = {"operation": "set the congestion control bbr", "errno": 2}
    assert refusal_from_error(AgentError("a1", "x", -32001, {**words, **kind}), "a1") is None


def lending(**account: int) -> dict[str, Any]:
    streams = [{"id": 0, "lent": account}] if account else [{"id": 0}]
    return {"drained": True, "streams": streams}


def test_what_became_of_lent_memory_is_summed_over_all_streams() -> None:
    sides = [
        lending(in_place=1, copied=2, unsettled=0),
        lending(),
        lending(in_place=3, copied=0, unsettled=5),
    ]
    assert zero_copy_counts(sides) == {"in_place": 4, "copied": 2, "unsettled": 5}
    assert zero_copy_counts([lending()]) is None
