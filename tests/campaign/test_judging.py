"""What is held against a trial: sockets, threads and rates that are not as asked."""

from __future__ import annotations

import pytest

from vnetbench.campaign.judging import Totals, judge_load, judge_streams, judge_threads
from vnetbench.lab.refusal import TreatmentRefused
from vnetbench.results.records import Sample, StreamSample

RATE_BPS = 10**9


def test_threads_that_the_kernel_put_elsewhere_are_refused() -> None:
    assert judge_threads({"a1": ["0", "0-1"]}, {"a1": ["0", "1,0"]})
    with pytest.raises(TreatmentRefused, match="threads on the CPUs 0 1 were asked for, and 0 0 read back"):
        judge_threads({"a1": ["0", "1"]}, {"a1": ["0", "0"]})


def test_a_stream_that_is_not_mptcp_is_refused_at_the_beginning_and_at_the_end() -> None:
    kept, fallen = ({"id": i, "transport": name} for i, name in enumerate(("mptcp", "tcp")))
    asked = {"transport": "mptcp"}
    assert judge_streams(asked, [kept])["transport"] == "mptcp"
    with pytest.raises(TreatmentRefused, match="stream 1 fell back to TCP"):
        judge_streams(asked, [kept, fallen])
    assert judge_load(asked, 1.0, {"a1": ({"streams": [kept]}, ())}) == []
    with pytest.raises(TreatmentRefused, match="stream 1 fell back to TCP") as refused:
        judge_load(asked, 1.0, {"a1": ({"streams": [kept]}, ()), "b1": ({"streams": [fallen]}, ())})
    assert "nstat" in str(refused.value.fix)


def test_a_pacing_rate_that_the_kernel_did_not_keep_is_refused() -> None:
    assert judge_streams({"pacing_rate": 1_000_001}, [{"pacing_rate_bps": 1_000_000}])
    for found in (None, 2 * 10**6):
        with pytest.raises(TreatmentRefused, match="pacing_rate = 1 Mbit/s did not take effect"):
            judge_streams({"pacing_rate": 10**6}, [{"pacing_rate_bps": 10**6}, {"pacing_rate_bps": found}])


@pytest.mark.parametrize(
    ("share", "remark"),
    [(1.0, ""), (1.04, ""), (0.8, "the streams came to 800 Mbit/s on average"), (1.3, None)],
)
def test_what_arrives_of_paced_streams_is_held_against_their_rate(share: float, remark: str | None) -> None:
    sides: dict[str, tuple[Totals, list[Sample]]] = {
        "a1": ({}, paced_samples("source", 9.0)),
        "b1": ({}, paced_samples("sink", share)),
    }
    asked = {"pacing_rate": RATE_BPS}
    if remark is None:
        with pytest.raises(TreatmentRefused, match=r"did not hold: 1\.30 Gbit/s arrived"):
            judge_load(asked, 1.0, sides)
    else:
        assert [remark in note for note in judge_load(asked, 1.0, sides)] == [True] * bool(remark)


def paced_samples(role: str, share: float) -> list[Sample]:
    """Those of a second at so much of the rate; what comes at its end is what was let go of."""
    sizes = [round(share * RATE_BPS * 0.1 / 8)] * 9 + [RATE_BPS, RATE_BPS]
    return [
        Sample(i, 0.1 * (i + 1), 0.1, 0, 0, {}, streams=(StreamSample(0, role, size, None, None, None),))
        for i, size in enumerate(sizes)
    ]
