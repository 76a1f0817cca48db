"""Select treatments by levels (`streams=4,thread_cpus=0,2`) or by index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vnetbench.errors import BenchError
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.study.factors.imported_factors import allow_unspecified
from vnetbench.study.factors.level_expressions import parse_levels
from vnetbench.study.factors.registry import FACTORS, require_factor_or_label
from vnetbench.study.model import Level
from vnetbench.study.problems import suggest_fix

_SELECTOR_PIECE_PATTERN = re.compile(r'((?:(?<==)"[^"]*"|[^,])*),')
"""Text before a comma. Commas inside a level in double quotes do not count."""


@dataclass(frozen=True)
class _FactorText:
    """A factor and the text of its level."""

    factor_name: str
    level_text: str

    @property
    def is_quoted(self) -> bool:
        return len(self.level_text) > 1 and self.level_text[0] == self.level_text[-1] == '"'

    @property
    def is_free_text(self) -> bool:
        return require_factor_or_label(self.factor_name).value_type.is_free_text


def select_treatments(summary: CampaignSummary, selector: str) -> list[int]:
    """Return the indexes of the treatments that a --treatment option selects.

    Args:
        summary: The estimates of a results file.
        selector: Levels (`streams=4,mtu=1500`) or an index.

    Raises:
        BenchError: No treatment has these levels, or the text can be read in two ways.
    """
    levels_by_index = {treatment.index: all_levels(summary, treatment) for treatment in summary.treatments}
    if selector.isdecimal():
        matches = [index for index in levels_by_index if index == int(selector)]
    else:
        requested_levels = _parse_levels(summary, selector).items()
        matches = [index for index, levels in levels_by_index.items() if requested_levels <= levels.items()]
    if not matches:
        raise _make_selector_error(f"no treatment matches {selector}", _format_selector_help(summary))
    return matches


def _parse_levels(summary: CampaignSummary, selector: str) -> dict[str, Level]:
    factor_texts = list(_split_selector(summary, selector))
    levels: dict[str, Level] = {}
    for position, each in enumerate(factor_texts):
        if each.factor_name in levels:
            raise _make_selector_error(
                f"{each.factor_name} is given twice", "use one --treatment option for each treatment"
            )
        if each.is_free_text and not each.is_quoted:
            _check_label_level_unambiguous(summary, factor_texts[position:])
        levels[each.factor_name] = _parse_level(each)
    return levels


def _split_selector(summary: CampaignSummary, selector: str) -> Iterator[_FactorText]:
    """Yield the factors with their level texts.

    A comma separates two factors only if `FACTOR=` follows it, because CPU lists contain commas too.
    """
    own = [factor.name for factor in summary.factors]
    last: _FactorText | None = None
    for piece in _SELECTOR_PIECE_PATTERN.findall(f"{selector},"):
        name, equals, text = (part.strip() for part in piece.partition("="))
        if equals and (name in own or name in FACTORS):
            if last is not None:
                yield last
            last = _FactorText(name, text)
        elif last is None or (equals and not last.is_free_text):
            fix = suggest_fix(name, [*own, *FACTORS], otherwise=_format_selector_help(summary))
            raise _make_selector_error(f'"{name}" is not a factor', fix)
        else:
            last = replace(last, level_text=f"{last.level_text},{piece}")
    if last is not None:
        yield last


def _parse_level(factor_text: _FactorText) -> Level:
    kind = allow_unspecified(require_factor_or_label(factor_text.factor_name).value_type)
    text = factor_text.level_text[1:-1] if factor_text.is_quoted else factor_text.level_text
    try:
        return kind.parse(text)
    except BenchError as error:
        several = len(parse_levels(kind, text).levels_with_positions)
        if several > 1:
            what = (
                f"{factor_text.factor_name}={text} has {several} levels, but a treatment has one level per "
                "factor"
            )
            raise _make_selector_error(what, "use one --treatment option for each treatment") from error
        raise _make_selector_error(
            f"{factor_text.factor_name}: {error.what}", error.fix or f"write {kind.expected_form}"
        ) from error


def _check_label_level_unambiguous(summary: CampaignSummary, factor_texts: list[_FactorText]) -> None:
    """Raise BenchError if a label could also contain the factors after it: a label may be any text."""
    first, *others = factor_texts
    known = {str(each.factors.get(first.factor_name)) for each in summary.treatments}
    text = first.level_text
    for other in others:
        text = f"{text},{other.factor_name}={other.level_text}"
        if text in known:
            raise _make_selector_error(
                f"the selector is ambiguous, because {first.factor_name} may be "
                f'"{first.level_text}" or "{text}"',
                f"put the level in double quotes: '{first.factor_name}=\"{text}\"'",
            )


def _format_selector_help(summary: CampaignSummary) -> str:
    own = ", ".join(factor.name for factor in summary.factors)
    return f"give levels of the factors {own}, for example mtu=1500,streams=4, or the treatment's index"


def _make_selector_error(what: str, fix: str) -> BenchError:
    return BenchError(what, where="--treatment", fix=fix)
