"""Fuzz the samples of an agent: each is kept in a form that a results file can store, or is a fault."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.foreign_files import apply_edits, edits
from vnetbench.agents.client import AgentClient
from vnetbench.agents.sample_lines import SampleLines
from vnetbench.campaign.trial_endpoint import TrialEndpoint
from vnetbench.results.records import OBSERVE, EndpointRecord
from vnetbench.results.sample_columns import (
    columns_to_samples,
    compress_json,
    decompress_json,
    samples_to_columns,
)
from vnetbench.results.validation import check_endpoint

pytestmark = pytest.mark.pure

_SAMPLE: dict[str, Any] = {
    "trial": "t", "seq": 0, "t_s": 0.05, "interval_s": 0.05, "bytes_sent": 1, "bytes_received": 0,
    "latency": {"count": 2, "p50_us": 17.9, "buckets": [[17215, 1], [17343, 1]]},
    "counters": {"interrupts": 1, "threads_cpu_s": 0.04},
    "cpu": [{"cpu": 0, "user_s": 0.01, "idle_s": 0.04}],
    "threads": [{"name": "a1 vcpu0", "cpu_s": 0.05, "waited_s": 0.01}],
    "interfaces": [{"name": "tap-a1", "rx_packets": 1, "qdisc": {"kind": "tbf", "drops": 0}}],
    "kvm_exits": {"exits": 812},
    "streams": [
        {"id": 0, "role": "source", "part": "requests", "bytes": 1, "bytes_acked": 1, "rtt_us": 20, "cwnd": 9,
         "retransmits": 0, "busy_s": 0.05, "pacing_rate_bps": None, "mss_bytes": 1448},
        {"id": 1, "role": "sink", "bytes": 0, "datagrams": 5, "lost": -1, "jitter_us": 1.4},
    ],
}  # fmt: skip
_LINE = json.dumps({"jsonrpc": "2.0", "method": "trial.sample", "params": _SAMPLE}).encode()
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from((2**70, "\ud800")),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3),
    max_leaves=6,
)


@given(st.lists(edits(), min_size=1, max_size=3))
def test_any_bytes_of_samples_are_kept_or_a_fault(changes: list[list[tuple[int, int, bytes]]]) -> None:
    _check([apply_edits(_LINE, each) for each in changes])


@given(st.data())
def test_any_value_in_a_sample_is_kept_or_a_fault(data: st.DataObject) -> None:
    params = json.loads(json.dumps(_SAMPLE))
    place: Any = params
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(_VALUES)
    _check([_LINE, json.dumps({"method": "trial.sample", "params": params}).encode()])


def _check(lines: list[bytes]) -> None:
    kept_lines = SampleLines()
    for line in lines:
        kept_lines.append(line)
    agent = cast(AgentClient, SimpleNamespace(endpoint="a1", sample_lines=kept_lines))
    endpoint = TrialEndpoint(agent, OBSERVE)
    endpoint.decode_samples("t")
    assert len(endpoint.samples) <= len(lines)
    stored = compress_json(samples_to_columns(endpoint.samples))
    read = tuple(columns_to_samples(decompress_json(*stored), with_counters=True))
    assert len(read) == len(endpoint.samples)
    check_endpoint(EndpointRecord("a1", OBSERVE, {}, read))
