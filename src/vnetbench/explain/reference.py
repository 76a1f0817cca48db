"""The page of causes, made from the rules; run as a module, it writes it to `docs/`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from vnetbench.explain.rules import FAMILIES, TWICE, Condition, Rule, Pattern, load_rules
from vnetbench.study.factors.registry import format_level
from vnetbench.study.model import Level

PAGE = "causes.md"

_HEAD = """\
# Causes

What `vnetbench explain` can name, made from the rules themselves (`src/vnetbench/explain/causes/*.toml`) by
`python -m vnetbench.explain.reference docs`. How to read an explanation, how a cause is scored and what the
figures cannot tell: [explain.md](explain.md). The figures: [evidence.md](evidence.md).

*Natural* causes are no faults: a run that goes as fast as it can ends at one of them. `figure 75 → 95` speaks
from 75 on, and wholly from 95 on; where the second number is the smaller one, small values speak. These
numbers are our own, fitted to runs with a cause that was put there on purpose (explain.md, "How sure it is"):
a source tells of the cause and of what shows it, and gives none of them.
"""
_TITLES: Mapping[str, str] = {
    "cpu": "CPU",
    "window": "Windows and latency",
    "packets": "Packets",
    "links": "Links",
    "instability": "Instability",
    "instrument": "The instrument",
}


def causes_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_HEAD, *(line for family in FAMILIES for line in _family(family))])


def _family(family: str) -> Iterator[str]:
    yield f"## {_TITLES[family]}\n"
    for rule in load_rules().values():
        if rule.cause.family == family:
            yield from _cause(rule)


def _cause(rule: Rule) -> Iterator[str]:
    cause = rule.cause
    yield f"### {cause.name}\n"
    yield f"{cause.description[:1].upper()}{cause.description[1:]}.{'' if cause.is_fault else ' *Natural.*'}\n"
    yield f"- To change it: {cause.advice}"
    if cause.setting:
        yield f"- Proved by: {', or '.join(_setting(name, level) for name, level in cause.setting.items())}"
    if not rule.has_patterns:
        yield "- Seen where trials or treatments are held against each other, by no figure of one trial."
    for place, sign in enumerate(rule.patterns):
        yield f"- {'Shows' if place == 0 else 'Or'} by {_sign(sign)}"
    if rule.explains:
        yield f"- Stands before, as it accounts for what they rest on: {', '.join(rule.explains)}"
    yield f"- Source: {cause.source}\n"


def _sign(sign: Pattern) -> str:
    parts = [", ".join(map(_condition, sign.requires))] if sign.requires else []
    if sign.alternatives:
        parts.append(f"one of {', '.join(map(_condition, sign.alternatives))}")
    against = f"; against it speak {', '.join(map(_condition, sign.contradicts))}" if sign.contradicts else ""
    return f"{'; and by '.join(parts)}{against}"


def _setting(name: str, level: Level) -> str:
    return f"`{name} = {level if level == TWICE else format_level(name, level)}`"


def _condition(condition: Condition) -> str:
    return f"`{condition.metric}` {condition.zero_at:g} → {condition.full_at:g}"


def main(folder: Path) -> None:
    """Write the page to a folder."""
    (folder / PAGE).write_text(causes_page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
