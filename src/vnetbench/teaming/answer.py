"""The answer of `team predict` in words: how many uplinks the flows use, and what they get."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.quantity import format_count_with_noun, format_exact_bit_rate, format_exact_share
from vnetbench.teaming.loads import TeamLoad
from vnetbench.teaming.policies.esxi import FORMULA_NAMES
from vnetbench.teaming.predict import TeamPrediction
from vnetbench.teaming.prediction import Prediction
from vnetbench.teaming.team import Team

_MAX_REASONS = 3


def answer_sentences(prediction: TeamPrediction) -> list[str]:
    """Return the sentences: the direction of the flows first, then the answers, then what is open."""
    forward = [each.forward for each in prediction.flows]
    reverse = [each.reverse for each in prediction.flows]
    subject = format_count_with_noun(len(forward), "flow")
    sentences = [
        _direction_sentence(subject, len(forward), forward, prediction.forward_load, prediction.team)
    ]
    sentences += _equal_rate_sentences(prediction.forward_load)
    answers = "Their answers" if len(forward) > 1 else "Its answers"
    answer = _direction_sentence(answers, 2, reverse, prediction.reverse_load, prediction.reverse_team)
    sentences.append(
        f"{answer.removesuffix('.')} (policy of the other side: {prediction.reverse_policy_name})."
    )
    sentences += _notes(forward, prediction.forward_load, "")
    if prediction.reverse_policy_name != prediction.policy.name or not any(f.depends_on for f in forward):
        sentences += _notes(reverse, prediction.reverse_load, " of the answers")
    return list(dict.fromkeys(sentences))


def _direction_sentence(
    subject: str, count: int, predictions: list[Prediction], load: TeamLoad, team: Team
) -> str:
    total = len(team.uplinks)
    down = total - len(team.usable)
    of = f"of {format_count_with_noun(total, 'uplink')}" + (f" ({down} down)" if down else "")
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
        yield (
            f"If every flow needs the same rate, the fullest uplink limits them to {rate} ({share} of all"
            " uplinks)."
        )


def _notes(predictions: list[Prediction], load: TeamLoad, of_what: str) -> Iterator[str]:
    """Yield what open uplinks depend on, and what certain ones assume.

    Args:
        predictions: Predictions of one direction.
        load: Load of that direction.
        of_what: " of the answers", or nothing for the flows themselves.
    """
    flows_by_reason: dict[str, list[int]] = {}
    ambiguous = 0
    for i, each in enumerate(predictions):
        if each.is_ambiguous and len(predictions) > 1:
            ambiguous += 1
        elif each.depends_on and each.spread == "one":
            flows_by_reason.setdefault(each.depends_on, []).append(i)
    if ambiguous:
        yield _ip_hash_ambiguity_sentence(ambiguous, load, of_what)
    for reason, flows in list(flows_by_reason.items())[:_MAX_REASONS]:
        if len(predictions) == 1:
            yield f"The uplink{of_what} depends on {reason}."
        elif len(flows) == 1:
            yield f"The uplink{of_what} of flow {flows[0]} depends on {reason}."
        else:
            yield f"The uplinks{of_what} of {len(flows)} flows depend on {reason}."
    if len(flows_by_reason) > _MAX_REASONS:
        more = format_count_with_noun(len(flows_by_reason) - _MAX_REASONS, "more condition")
        yield f"{more}{of_what}: see --json."
    for assumption in dict.fromkeys(each.assumption for each in predictions if each.assumption):
        yield f"Assumed: {assumption}."


def _ip_hash_ambiguity_sentence(flows: int, load: TeamLoad, of_what: str) -> str:
    """Return what each of the two published formulas of IP hash gives for all flows together."""
    verb = "depends" if flows == 1 else "depend"
    text = f"{format_count_with_noun(flows, 'flow')}{of_what} {verb} on which of ESXi's two formulas holds"
    if not load.used_by_formula:
        return f"{text}."
    parts = zip(FORMULA_NAMES, load.used_by_formula, strict=True)
    return (
        f"{text}: "
        + ", ".join(f"{format_count_with_noun(count, 'uplink')} by {name}" for name, count in parts)
        + "."
    )
