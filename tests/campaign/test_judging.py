"""What is held against a trial: a kernel that lacks what was asked, and memory lent but copied after all."""

from __future__ import annotations

from typing import Any

import pytest

from vnetbench.agents.client import AgentError
from vnetbench.campaign.judging import lent, refusal_of, remarks


@pytest.mark.parametrize("call", ["io_uring", "io_uring's SEND_ZC", "MSG_ZEROCOPY"])
def test_a_send_mode_that_the_kernel_lacks_is_refused_with_the_fix(call: str) -> None:
    message = f"the system refused to send by {call}: Operation not permitted"
    refusal = refusal_of(AgentError("a1", message, -32001, {"operation": f"send by {call}"}), "a1")
    assert refusal is not None
    assert call in refusal.what
    assert refusal.where == "a1"
    assert "io_uring_disabled" in str(refusal.fix)


def test_another_fault_of_the_system_is_no_refusal() -> None:
    assert refusal_of(AgentError("a1", "x", -32001, {"operation": "connect to 10.0.0.2:1"}), "a1") is None


def side(**account: int) -> dict[str, Any]:
    streams = [{"id": 0, "lent": account}] if account else [{"id": 0}]
    return {"drained": True, "streams": streams}


def test_what_became_of_lent_memory_is_summed_over_all_streams() -> None:
    sides = [side(in_place=1, copied=2, unsettled=0), side(), side(in_place=3, copied=0, unsettled=5)]
    assert lent(sides) == {"in_place": 4, "copied": 2, "unsettled": 5}
    assert lent([side()]) is None


def test_memory_that_was_mostly_copied_after_all_is_said() -> None:
    host: dict[str, Any] = {}
    copied = remarks(1.0, 0.05, {"a1": side(in_place=1, copied=9, unsettled=0), "host": host})
    assert copied == ["a1: the kernel copied most of what was to be sent without a copy"]
    assert remarks(1.0, 0.05, {"a1": side(in_place=9, copied=1, unsettled=0), "host": host}) == []
