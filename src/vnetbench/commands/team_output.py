"""What the commands of `team` print: the answer, tables of flows and uplinks, and advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vnetbench.commands.team_arguments import TeamArguments, resolve_arguments
from vnetbench.printable import make_printable
from vnetbench.quantity import format_count_with_noun, format_exact_bit_rate, format_share
from vnetbench.report.tables.text_table import TrimmedLines, bullet_list
from vnetbench.teaming.advice import Advice, advise
from vnetbench.teaming.answer import answer_sentences
from vnetbench.teaming.expectation import Expectation, expect_random_flows
from vnetbench.teaming.flows import format_end
from vnetbench.teaming.json_form import prediction_json
from vnetbench.teaming.policies.registry import POLICIES
from vnetbench.teaming.policies.switch import BUCKETS, count_buckets
from vnetbench.teaming.predict import TeamPrediction, count_independent_flows
from vnetbench.teaming.prediction import Prediction

_MAX_SHOWN_FLOWS = 40
"""More flows than fit on a screen; --json has all of them."""
_MAX_SHOWN_CHANGES = 20
_FIELD_NAMES = {
    "source": "source IP",
    "destination": "destination IP",
    "source_mac": "source MAC",
    "destination_mac": "destination MAC",
}
_LEAST_SHOWN_PROBABILITY = 0.005


def print_prediction(arguments: TeamArguments, *, as_json: bool) -> None:
    """Predict and print.

    Raises:
        BenchError: The options do not name a team, a policy and flows that fit.
    """
    question = resolve_arguments(arguments)
    prediction = question.predict()
    advice = advise(prediction)
    expectation = _expect(prediction)
    if as_json:
        click.echo(prediction_json(prediction, expectation, advice, question.notes))
        return
    # Addresses such as [fd00:100:1::2]:80 are no markup, and have no emoji.
    console = Console(highlight=False, markup=False, emoji=False)
    for sentence in answer_sentences(prediction):
        console.print(Text(make_printable(sentence)))
    for table in (_flow_table(prediction), _uplink_table(prediction)):
        console.print()
        console.print(TrimmedLines(table))
    hidden = len(prediction.flows) - _MAX_SHOWN_FLOWS
    lines = [f"{format_count_with_noun(hidden, 'more flow')}: see --json."] if hidden > 0 else []
    lines += [*question.notes, *_expectation_lines(expectation, prediction), *_advice_lines(advice)]
    console.print()
    console.print(TrimmedLines(bullet_list(lines)))


def print_policies() -> None:
    """Print the table of all policies."""
    console = Console(highlight=False, emoji=False)
    for family in dict.fromkeys(policy.family for policy in POLICIES.values()):
        table = _make_table(family, "Uplink by", "Decided by", "Needs of a flow")
        table.columns[0].no_wrap = True
        for policy in POLICIES.values():
            if policy.family == family:
                needs = (
                    ", ".join(_FIELD_NAMES.get(each, each.replace("_", " ")) for each in policy.needs) or "–"
                )
                table.add_row(policy.name, policy.summary, policy.decider, needs)
        console.print(TrimmedLines(table))
        console.print()


def _expect(prediction: TeamPrediction) -> Expectation | None:
    """Return what random flows would do; None for policies that do not spread single flows."""
    policy, team = prediction.policy, prediction.team
    if policy.decider != "hash" and policy.family != "Open vSwitch":
        return None
    count = len(team.usable)
    is_by_buckets = policy.most_uplinks is not None
    shares = [buckets / BUCKETS for buckets in count_buckets(count)] if is_by_buckets else [1 / count] * count
    return expect_random_flows(
        count_independent_flows(prediction), shares, [team.uplinks[i].speed_bps for i in team.usable]
    )


def _make_table(*titles: str, numbers: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", overflow="fold")
    return table


def _flow_table(prediction: TeamPrediction) -> Table:
    table = _make_table("#", "Source", "Destination", "Uplink", "Uplink of answers", numbers=("#",))
    for i, each in enumerate(prediction.flows[:_MAX_SHOWN_FLOWS]):
        flow = each.flow
        table.add_row(
            str(i),
            format_end(flow.source, flow.source_mac, flow.source_port),
            format_end(flow.destination, flow.destination_mac, flow.destination_port),
            _uplink_text(each.forward, prediction),
            _uplink_text(each.reverse, prediction),
        )
    return table


def _uplink_text(prediction: Prediction, whole: TeamPrediction) -> str:
    if prediction.uplink is not None:
        return _uplink_name(whole, prediction.uplink)
    names = _join_indices(prediction.candidates)
    if prediction.spread != "one":
        return f"{names}, {prediction.spread}"
    return f"{names}: ambiguous" if prediction.is_ambiguous else f"{names}: open"


def _uplink_name(prediction: TeamPrediction, index: int) -> str:
    name = make_printable(prediction.team.uplinks[index].name)
    return str(index) if name == str(index) else f"{index} {name}"


def _join_indices(indices: Sequence[int]) -> str:
    """Return `0 to 3` for neighbours, `0 or 2` for others."""
    if len(indices) > 2 and indices[-1] - indices[0] == len(indices) - 1:
        return f"{indices[0]} to {indices[-1]}"
    return " or ".join(map(str, indices))


def _uplink_table(prediction: TeamPrediction) -> Table:
    numbers = ("Speed", "Flows", "Share", "Answers")
    table = _make_table("Uplink", "Speed", "State", "Flows", "Share", "Answers", numbers=numbers)
    flow_count = max(len(prediction.flows), 1)
    for i, uplink in enumerate(prediction.team.uplinks):
        forward, reverse = (load.uplinks[i] for load in (prediction.forward_load, prediction.reverse_load))
        table.add_row(
            _uplink_name(prediction, i),
            "?" if uplink.speed_bps is None else format_exact_bit_rate(uplink.speed_bps),
            "up" if uplink.is_up else "down",
            _count_text(forward.expected_flows),
            format_share(forward.expected_flows / flow_count),
            _count_text(reverse.expected_flows),
        )
    return table


def _count_text(count: float) -> str:
    """Return a number of flows; an expected number that is not whole has a decimal, or two below 1."""
    if abs(count - round(count)) < 1e-9:
        return f"{count:.0f}"
    return f"{count:.1f}" if count >= 1 else f"{count:.2f}"


def _expectation_lines(expectation: Expectation | None, prediction: TeamPrediction) -> Iterator[str]:
    if expectation is None or len(expectation.used_probabilities) < 3:
        return
    if expectation.flows < len(prediction.flows):
        different = format_count_with_noun(expectation.flows, "different flow")
        yield (
            f"{prediction.policy.name} reads only {different} in these"
            f" {len(prediction.flows)}; flows with the same fields share an uplink."
        )
    if expectation.flows == 1:
        return
    shown = [
        f"{used}: {format_share(probability)}"
        for used, probability in enumerate(expectation.used_probabilities)
        if probability >= _LEAST_SHOWN_PROBABILITY
    ]
    total = (
        "" if expectation.mean_total_bps is None else f", {_mean_rate(expectation.mean_total_bps)} together"
    )
    yield (
        f"{expectation.flows} random flows use {expectation.mean_used:.2f} uplinks on average{total}"
        f" ({', '.join(shown)})."
    )
    yield (
        f"The busiest uplink then carries {format_share(expectation.mean_busiest_share)} of them on"
        f" average, and at most {format_share(expectation.busiest_share_90)} with a probability of 90 %."
    )


def _mean_rate(rate_bps: float) -> str:
    return format_exact_bit_rate(round(rate_bps / 1e7) * 1e7)


def _advice_lines(advice: Advice) -> Iterator[str]:
    yield from advice.sentences
    for change in advice.changes[:_MAX_SHOWN_CHANGES]:
        value = f"{change.field} {change.after} instead of {change.before}"
        yield f"Flow {change.index}: {value}, for uplink {change.uplink}."
    if len(advice.changes) > _MAX_SHOWN_CHANGES:
        hidden = len(advice.changes) - _MAX_SHOWN_CHANGES
        yield f"{format_count_with_noun(hidden, 'more change')}: see --json."
