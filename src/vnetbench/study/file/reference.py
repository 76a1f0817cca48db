"""The reference page of study files; run as a module, it writes this page and the JSON Schema to `docs/`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.level_expressions import MAX_LEVELS
from vnetbench.study.factors.registry import FACTORS, has_factor_on
from vnetbench.study.file.host_section import HOST_SECTION
from vnetbench.study.file.keys import StudyKey, StudySection
from vnetbench.study.file.load import MAX_TABLES
from vnetbench.study.file.schema import json_schema
from vnetbench.study.file.sections import (
    EXCLUDE_DESCRIPTION,
    FACTORS_DESCRIPTION,
    SECTIONS,
    TOGETHER_DESCRIPTION,
    TOP_LEVEL,
)
from vnetbench.study.labs import IPERF3, LABS
from vnetbench.study.rules.study_checks import MAX_TREATMENTS
from vnetbench.study.workloads import WORKLOADS

PAGE = "study-reference.md"
SCHEMA = "study.schema.json"

_HEAD = """\
# The study file

A study says what is asked: factors, their levels, a workload, a precision. It is a TOML file, and it is
checked as a whole before anything is built: every problem is named with its line, what was expected and the
nearest right word.

This page and [`study.schema.json`](study.schema.json) are made from the same source
(`python -m vnetbench.study.file.reference docs`). Editors that know JSON Schema for TOML (taplo, Even Better TOML)
complete a study whose first line names the schema, as those in `studies/` do:

    #:schema ../docs/study.schema.json

A small study:

    title = "Jumbo frames"

    [factors]
    streams = "1, 2, 4 .. 16"
    mtu = [1500, 9000]

    [precision]
    half_width = "5 %"
    time_limit = "10 min"
"""

_QUANTITIES = """\
## Quantities

A quantity is a number and its unit in quotes. A missing unit is an error: none is guessed.

| quantity | units | example |
|---|---|---|
| duration | `µs` (or `us`), `ms`, `s`, `min`, `h`; several from large to small | `"2 min 30 s"` |
| size | `B`; `kB`, `MB`, `GB` (powers of 1000); `KiB`, `MiB`, `GiB` (powers of 1024) | `"64 KiB"` |
| rate | `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s` (or `bps`, `kbps`, …), powers of 1000 | `"10 Gbit/s"` |
| frame rate | `frame/s`, `kframe/s`, `Mframe/s` (powers of 1000) | `"10 kframe/s"` |
| frequency | `/s`, `k/s`, `M/s` (powers of 1000) | `"10 k/s"` |
| frame rate | `frame/s`, `kframe/s`, `Mframe/s` (powers of 1000) | `"100 kframe/s"` |
| share | `%` | `"3 %"` |
"""

_EXCLUDE = f"""\
## `[[exclude]]`

{EXCLUDE_DESCRIPTION}

    [[exclude]]
    mtu = 9000
    link_rate = "1 Gbit/s"
"""

_TOGETHER = f"""\
## `[[together]]`

{TOGETHER_DESCRIPTION}

    [[together]]
    mtu = 9000
    gro = "off"
"""

_LEVELS = """\
## Levels

The levels of a factor are one value, a TOML list, or an expression in quotes:

| written | levels |
|---|---|
| `[1500, 9000]` | 1500 and 9000 |
| `"1500, 9000"` | the same |
| `"1..4"` | 1, 2, 3, 4 (counts only) |
| `"1, 3, 5 .. 9"` | 1, 3, 5, 7, 9: equal steps go on |
| `"1, 2, 4 .. 64"` | 1, 2, 4, 8, 16, 32, 64: equal factors go on |
| `"64 B, 256 B, 1 KiB .. 64 KiB"` | 64 B, 256 B, 1 KiB, 4 KiB, 16 KiB, 64 KiB |
| `["8 KiB, 16 KiB, 32 KiB .. 128 KiB", "auto"]` | an expression in a list |

A range must meet its end exactly. Values that have commas in them (CPU lists) are told apart in a list only:
`["0,2", "1,3"]`.
"""

_SET = """\
## Other levels, same study

`vnetbench run STUDY --set NAME=LEVELS` changes a study without editing it, and is recorded in the results
file. It may be given several times.

- `--set streams=1,4 --set mtu=9000`: other levels of a factor. A factor that the file does not name is added.
- `--set 'irq_cpus=["0,2", "apart"]'`: a list, for values that have commas in them.
- `--set precision.half_width=5%`, `--set timing.duration='10 s'`: a key of a section.
"""


def reference_page() -> str:
    """The page, in Markdown."""
    sections = list(SECTIONS.values())
    sections.insert(1 + sections.index(SECTIONS["testbed"]), HOST_SECTION)
    parts = [
        _HEAD,
        *map(_section_text, sections),
        _factors_text(),
        _EXCLUDE,
        _TOGETHER,
        _QUANTITIES,
        _LEVELS,
        _SET,
    ]
    return "\n".join([*parts, _limits_text()])


def schema_text() -> str:
    """The JSON Schema as it is published."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _section_text(section: StudySection) -> str:
    heading = f"[[{section.name}]]" if section is HOST_SECTION else f"[{section.name}]"
    title = "The head of the file" if section.name == TOP_LEVEL else f"`{heading}`"
    rows = [_key_row(key) for key in section.keys.values()]
    table = ["| key | meaning | written | without it |", "|---|---|---|---|", *rows]
    return "\n".join([f"## {title}", "", section.description, "", *table, ""])


def _key_row(key: StudyKey) -> str:
    without = "required" if key.required else f"`{key.default_text}`" if key.default_text else "–"
    return f"| `{key.name}` | {key.description} | {key.value_type.expected_form}, e.g. `{key.example}` | {without} |"


def _factors_text() -> str:
    lines = [f"## `[factors]`\n\n{FACTORS_DESCRIPTION} At least one factor must be named.\n"]
    for factor in FACTORS.values():
        lines += _factor_lines(factor)
    return "\n".join(lines)


def _factor_lines(factor: Factor) -> Iterator[str]:
    without = (
        "it is left as the system has it"
        if factor.default is None
        else f"`{factor.value_type.format(factor.default)}`, set in every trial"
    )
    without += "".join(
        f"; with `{workload}` `{factor.value_type.format(level)}`"
        for workload, level in factor.workload_defaults.items()
    )
    examples = " or ".join(f"`{factor.name} = {example}`" for example in factor.examples)
    yield f"### `{factor.name}`\n\n{factor.description}\n"
    if factor.workloads != WORKLOADS:
        yield f"- Only with the workload {' or '.join(f'`{name}`' for name in factor.workloads)}."
    if factor.labs != LABS:
        yield f"- Only in the lab {' or '.join(f'`{lab}`' for lab in factor.labs)}."
    if has_factor_on(IPERF3, factor.name):
        yield "- Also towards an endpoint that only has an iperf3 server."
    yield f"- A level: {factor.value_type.expected_form}."
    yield f"- Without it: {without}."
    yield f"- Example: {examples}.\n"


def _limits_text() -> str:
    return f"""\
## Limits

A factor has {MAX_LEVELS:,} levels at most, a study {MAX_TREATMENTS:,} combinations of levels and
{MAX_TABLES} exclusions.
"""


def main(folder: Path) -> None:
    """Write the page and the schema to a folder."""
    (folder / PAGE).write_text(reference_page())
    (folder / SCHEMA).write_text(schema_text())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
