"""Where a delay line's threads are put, and what is said where they cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links.delay_line import FIXES, DelayLines

pytestmark = pytest.mark.pure

LOAD = {"a1": frozenset({0}), "b1": frozenset({1})}
ONLINE = frozenset(range(4))


class Agent:
    """One of a delay line, that answers to `knob.set` so."""

    def __init__(self, answer: Mapping[str, Any] | AgentError) -> None:
        self._answer = answer

    def call(self, method: str, **params: object) -> Mapping[str, Any]:
        if isinstance(self._answer, AgentError):
            raise self._answer
        return self._answer


def lines(answer: Mapping[str, Any] | AgentError) -> DelayLines:
    made = DelayLines.__new__(DelayLines)
    made.agent = cast(AgentClient, Agent(answer))
    return made


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (AgentError("line", "no", -32000, {"reason": "Invalid argument"}), "cannot be set: Invalid argument"),
        ({"found": "0"}, "did not take effect: 0 was read back"),
    ],
)
def test_cpus_that_a_line_cannot_have_refuse_the_treatment(answer: Any, what: str) -> None:
    with pytest.raises(TreatmentRefused) as refused:
        lines(answer).place_threads(LOAD, ONLINE)
    assert refused.value.what == f"CPUs 2-3 for its threads {what}"
    assert (refused.value.where, refused.value.fix) == ("delay line", FIXES["cpus"])


def test_an_agent_of_a_line_that_is_gone_refuses_nothing() -> None:
    with pytest.raises(AgentError):
        lines(AgentError("line", "it was killed")).place_threads(LOAD, ONLINE)
