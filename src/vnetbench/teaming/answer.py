"""The answer of `team predict` in words: how many uplinks the flows use, and what they get."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.quantity import format_exact_bit_rate, format_exact_share
from vnetbench.teaming.loads import TeamLoad
from vnetbench.teaming.predict import TeamPrediction
from vnetbench.teaming.prediction import Prediction
from vnetbench.teaming.team import Team


def answer_sentences(prediction: TeamPrediction) -> list[str]:
    """Return the sentences: the direction of the flows first, then the answers, then what is open."""
    forward = [each.forward for each in prediction.flows]
    reverse = [each.reverse for each in prediction.flows]
    subject = _count(len(forward), "flow")
    sentences = [
        _direction_sentence(subject, len(forward), forward, prediction.forward_load, prediction.team)
    ]
    sentences += _equal_rate_sentences(prediction.forward_load)
    answers = "Their answers" if len(forward) > 1 else "Its answers"
    sentences.append(
        _direction_sentence(answers, 2, reverse, prediction.reverse_load, prediction.reverse_team)
    )
    sentences[-1] = (
        sentences[-1].removesuffix(".") + f" (policy of the other side: {prediction.reverse_policy_name})."
    )
    sentences += _notes(forward, "The uplink depends on")
    if prediction.reverse_policy_name != prediction.policy.name:
        sentences += _notes(reverse, "The uplink of the answers depends on")
    return sentences


def _direction_sentence(
    subject: str, count: int, predictions: list[Prediction], load: TeamLoad, team: Team
) -> str:
    total = len(team.uplinks)
    down = total - len(team.usable)
    of = f"of {_count(total, 'uplink')}" + (f" ({down} down)" if down else "")
    spreads = {each.spread for each in predictions}
    verb = "use" if count != 1 else "uses"
    rate = _rate_text(load)
    if spreads == {"packets in turn"}:
        return f"{subject} {verb} {load.most_used} {of} in turn, packet by packet and so out of order{rate}."
    if spreads == {"copy on each"}:
        return f"{subject} {verb} {load.most_used} {of} with a copy on each{rate}."
    if load.least_used == load.most_used:
        return f"{subject} {verb} {load.most_used} {of}{rate}."
    return f"{subject} {verb} {load.least_used} to {load.most_used} {of}{rate}."


def _rate_text(load: TeamLoad) -> str:
    if load.sum_bps is None or load.least_bps is None or load.most_bps is None:
        return ""
    whole = format_exact_bit_rate(load.sum_bps)
    if load.least_bps == load.most_bps:
        return f": at most {format_exact_bit_rate(load.most_bps)} of {whole}"
    least, most = (format_exact_bit_rate(each) for each in (load.least_bps, load.most_bps))
    return f": at most {least} to {most} of {whole}"


def _equal_rate_sentences(load: TeamLoad) -> Iterator[str]:
    """Yield what the team gives if all flows need the same rate, where that is less."""
    if load.equal_flows_bps and load.most_bps and load.equal_flows_bps < 0.995 * load.most_bps:
        share = format_exact_share(round(load.equal_flows_bps / (load.sum_bps or 1), 3))
        rate = format_exact_bit_rate(round(load.equal_flows_bps / 1e6, 1) * 1e6)
        yield f"If every flow needs the same rate, the fullest uplink limits them to {rate} ({share})."


def _notes(predictions: list[Prediction], start: str) -> Iterator[str]:
    reasons = dict.fromkeys(
        each.depends_on for each in predictions if each.depends_on and each.spread == "one"
    )
    for reason in list(reasons)[:3]:
        yield f"{start} {reason}."
    if len(reasons) > 3:
        yield f"{start} {len(reasons) - 3} more such conditions; see --json."
    for assumption in dict.fromkeys(each.assumption for each in predictions if each.assumption):
        yield f"Assumed: {assumption}."


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
