"""Tests of the CPUs of a delay line's threads, and of the errors if they cannot be pinned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links.delay_line import DELAY_LINE_FIX_BY_KNOB, DelayLines

pytestmark = pytest.mark.pure

LOAD = {"a1": frozenset({0}), "b1": frozenset({1})}
ONLINE = frozenset(range(4))


class FakeAgent:
    """An agent of a delay line with a fixed answer to `knob.set`."""

    def __init__(self, answer: Mapping[str, Any] | AgentError) -> None:
        self._answer = answer

    def call(self, method: str, **params: object) -> Mapping[str, Any]:
        if isinstance(self._answer, AgentError):
            raise self._answer
        return self._answer


def make_delay_lines(answer: Mapping[str, Any] | AgentError) -> DelayLines:
    lines = DelayLines.__new__(DelayLines)
    lines.agent = cast(AgentClient, FakeAgent(answer))
    return lines


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (
            AgentError("line", "no", -32000, {"reason": "cannot be set: Invalid argument"}),
            "CPUs 2-3 for its threads cannot be set: Invalid argument",
        ),
        ({"effective": "0"}, "CPUs 2-3 for its threads did not take effect: 0 was read back"),
    ],
)
def test_a_treatment_is_refused_if_the_line_cannot_be_pinned(answer: Any, what: str) -> None:
    with pytest.raises(TreatmentRefused) as refused:
        make_delay_lines(answer).pin_threads(LOAD, ONLINE)
    assert refused.value.what == what
    assert (refused.value.where, refused.value.fix) == ("delay line", DELAY_LINE_FIX_BY_KNOB["cpus"])


def test_an_ended_agent_of_a_line_does_not_refuse_the_treatment() -> None:
    with pytest.raises(AgentError):
        make_delay_lines(AgentError("line", "it was killed")).pin_threads(LOAD, ONLINE)
