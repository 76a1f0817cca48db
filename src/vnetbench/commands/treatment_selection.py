"""Which treatments somebody means who names them by levels, `streams=4,thread_cpus=0,2`, or by an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vnetbench.errors import BenchError
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.study.factors.imported_factors import or_untold
from vnetbench.study.factors.level_expressions import read_levels
from vnetbench.study.factors.registry import FACTORS, factor_named
from vnetbench.study.model import Level
from vnetbench.study.problems import suggest

_PIECE = re.compile(r'((?:(?<==)"[^"]*"|[^,])*),')
"""What stands before a comma; those of a level in double quotes part nothing."""


@dataclass(frozen=True)
class _Named:
    """One factor with what is said to be its level."""

    factor: str
    text: str

    @property
    def is_quoted(self) -> bool:
        return len(self.text) > 1 and self.text[0] == self.text[-1] == '"'

    @property
    def is_text(self) -> bool:
        return factor_named(self.factor).kind.is_text


def indices_of(summary: CampaignSummary, asked: str) -> list[int]:
    """The treatments that have these levels, or this index; raises BenchError where none has."""
    known = {treatment.index: all_levels(summary, treatment) for treatment in summary.treatments}
    if asked.isdecimal():
        found = [index for index in known if index == int(asked)]
    else:
        wanted = _levels(summary, asked).items()
        found = [index for index, levels in known.items() if wanted <= levels.items()]
    if not found:
        raise _error(f"no treatment is {asked}", _how_to_name(summary))
    return found


def _levels(summary: CampaignSummary, asked: str) -> dict[str, Level]:
    named = list(_named(summary, asked))
    levels: dict[str, Level] = {}
    for place, each in enumerate(named):
        if each.factor in levels:
            raise _error(f"{each.factor} is named twice", "name each treatment by a --treatment of its own")
        if each.is_text and not each.is_quoted:
            _refuse_two_readings(summary, named[place:])
        levels[each.factor] = _level(each)
    return levels


def _named(summary: CampaignSummary, asked: str) -> Iterator[_Named]:
    """A comma parts two levels only where a factor and = come after it: lists of CPUs have some too."""
    own = [factor.name for factor in summary.factors]
    last: _Named | None = None
    for piece in _PIECE.findall(f"{asked},"):
        name, equals, text = (part.strip() for part in piece.partition("="))
        if equals and (name in own or name in FACTORS):
            if last is not None:
                yield last
            last = _Named(name, text)
        elif last is None or (equals and not last.is_text):
            fix = suggest(name, [*own, *FACTORS], otherwise=_how_to_name(summary))
            raise _error(f'"{name}" is not a factor', fix)
        else:
            last = replace(last, text=f"{last.text},{piece}")
    if last is not None:
        yield last


def _level(named: _Named) -> Level:
    kind = or_untold(factor_named(named.factor).kind)
    text = named.text[1:-1] if named.is_quoted else named.text
    try:
        return kind.parse(text)
    except BenchError as error:
        several = len(read_levels(kind, text).levels)
        if several > 1:
            what = f"{named.factor}={text} are {several} levels, and a treatment has one of each factor"
            raise _error(what, "name each treatment by a --treatment of its own") from error
        raise _error(f"{named.factor}: {error.what}", error.fix or f"write {kind.expects}") from error


def _refuse_two_readings(summary: CampaignSummary, named: list[_Named]) -> None:
    """A label may be any text, so also one in which another factor and its level seem to follow."""
    first, *others = named
    known = {str(each.factors.get(first.factor)) for each in summary.treatments}
    text = first.text
    for other in others:
        text = f"{text},{other.factor}={other.text}"
        if text in known:
            raise _error(
                f'it can be read in two ways: {first.factor} may be "{first.text}" or "{text}"',
                f"put the level that is meant in double quotes: '{first.factor}=\"{text}\"'",
            )


def _how_to_name(summary: CampaignSummary) -> str:
    own = ", ".join(factor.name for factor in summary.factors)
    return f"name levels of its factors ({own}), such as mtu=1500,streams=4, or its index"


def _error(what: str, fix: str) -> BenchError:
    return BenchError(what, where="--treatment", fix=fix)
