"""What a run says of a suspicion: confirmed and refuted beyond chance, and of the same treatment, only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.explanations import QUOTA, RECEIVER, TRIED
from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.estimate.paired import matched, together
from vnetbench.explain.model import Suspect
from vnetbench.explain.proven import proven, verdict, was_tried
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

LEVELS: dict[str, Level] = {"streams": 1, "direction": "forward", "mtu": 1500}


def ratio(value: float, low: float | None, high: float | None) -> Ratio:
    return Ratio(value, low, high, 0.95, 0.01)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (ratio(1.8, 1.7, 1.9), "confirmed"),
        (ratio(1.06, 1.01, 1.11), "confirmed"),
        (ratio(1.02, 1.01, 1.03), "refuted"),  # better, but by less than what a limit would hold back
        (ratio(0.99, 0.97, 1.01), "refuted"),
        (ratio(0.8, 0.75, 0.85), "refuted"),
        (ratio(1.3, 0.9, 1.8), "not shown"),
        (ratio(1.0, 0.9, 1.1), "not shown"),
        (ratio(1.8, None, None), "not shown"),
    ],
)
def test_a_run_confirms_what_is_worthwhile_beyond_chance(found: Ratio, says: str) -> None:
    assert verdict(found, "goodput_bps") == says


def test_what_brings_a_dead_treatment_to_life_is_confirmed_in_blocks_enough_and_what_kills_one_refuted() -> (
    None
):
    dead, alive = (dict.fromkeys(range(8), value) for value in (0.0, 1e9))
    pairs = [matched(dead, alive), matched(alive, dead)]
    revived, killed = (together([pair], 0.95) for pair in pairs if pair is not None)
    few = matched({0: 0.0}, {0: 1e9})
    assert few is not None
    says = [verdict(each, "goodput_bps") for each in (revived, killed, together([few], 0.95))]
    assert says == ["confirmed", "refuted", "not shown"]


def test_of_what_is_better_low_less_confirms() -> None:
    assert verdict(ratio(0.5, 0.45, 0.55), "latency_p50_us") == "confirmed"
    assert verdict(ratio(1.5, 1.4, 1.6), "latency_p50_us") == "refuted"
    assert verdict(ratio(0.9, 0.5, 1.2), "latency_p50_us") == "not shown"


def tried(value: float, spread: float) -> Experiment:
    return replace(TRIED, ratio=ratio(value, value - spread, value + spread))


def suspects() -> tuple[Suspect, ...]:
    quota = Suspect(replace(QUOTA, setting={"threads": 2}), 0.6, "likely", ())
    return (quota, Suspect(RECEIVER, 0.9, "very likely", ()))


def test_what_is_confirmed_comes_first_and_what_is_refuted_last() -> None:
    names = [(each.cause.name, each.certainty) for each in proven(suspects(), LEVELS, [tried(1.9, 0.1)])]
    assert names == [("receiver_cpu", "confirmed"), ("cpu_quota", "likely")]
    first, last = proven(suspects()[::-1], LEVELS, [tried(1.0, 0.02)])
    assert (first.cause.name, first.proof) == ("cpu_quota", None)
    assert last.certainty == "refuted" and last.proof is not None and last.proof.verdict == "refuted"


def test_of_two_that_were_confirmed_the_one_that_gained_most_comes_first() -> None:
    gained = replace(tried(9.0, 1.0), setting={"threads": 2})
    for order in (suspects(), suspects()[::-1]):
        names = [each.cause.name for each in proven(order, LEVELS, [tried(1.3, 0.1), gained])]
        assert names == ["cpu_quota", "receiver_cpu"]


def test_what_a_run_does_not_show_stays_as_sure_as_it_was() -> None:
    (_, receiver) = proven(suspects(), LEVELS, [tried(1.1, 0.3)])
    assert receiver.certainty == "very likely"
    assert receiver.proof is not None and receiver.proof.verdict == "not shown"


def test_a_run_of_another_treatment_or_setting_says_nothing() -> None:
    for other in (
        replace(tried(1.9, 0.1), levels={**TRIED.levels, "mtu": 9000}),
        replace(tried(1.9, 0.1), setting={"streams": 8}),
    ):
        assert proven(suspects(), LEVELS, [other]) == suspects()
    assert was_tried(LEVELS, [TRIED]) and not was_tried({**LEVELS, "mtu": 9000}, [TRIED])
