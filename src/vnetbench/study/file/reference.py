"""Reference page of study files; run as a module, it writes the page and the JSON Schema to `docs/`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.level_expressions import MAX_LEVELS
from vnetbench.study.factors.registry import FACTORS, backend_has_factor
from vnetbench.study.file.contents import MAX_TABLES_PER_HEADING
from vnetbench.study.file.keys import KeyFormat, StudySection, get_key_format
from vnetbench.study.file.schema import make_json_schema, make_section_schema
from vnetbench.study.file.sections import (
    EXCLUDE_DESCRIPTION,
    FACTORS_DESCRIPTION,
    HEAD_OF_FILE,
    SECTIONS,
    TESTBED_TABLES,
    TOGETHER_DESCRIPTION,
)
from vnetbench.study.labs import IPERF3_BACKEND, LABS
from vnetbench.study.rules.study_checks import MAX_TREATMENTS
from vnetbench.study.workloads import WORKLOAD_NAMES

PAGE_FILE_NAME = "study-reference.md"
SCHEMA_FILE_NAME = "study.schema.json"

_PAGE_HEAD = """\
# The study file

A study defines factors and their levels, a workload, a testbed and a precision. It is a TOML file. The bench
checks the whole file before it builds a testbed. It reports every problem with its line, the expected value
and the most similar valid word.

This page and [`study.schema.json`](study.schema.json) are generated from the same source
(`python -m vnetbench.study.file.reference docs`). Editors with JSON Schema for TOML (taplo, Even Better TOML)
complete a study whose first line names the schema, like those in `studies/`:

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

_QUANTITIES_SECTION = """\
## Quantities

A quantity is a number and its unit in quotes. A missing unit is an error; the bench never guesses one.

| quantity | units | example |
|---|---|---|
| duration | `µs` (or `us`), `ms`, `s`, `min`, `h`; several units from large to small | `"2 min 30 s"` |
| size | `B`; `kB`, `MB`, `GB` (powers of 1000); `KiB`, `MiB`, `GiB` (powers of 1024) | `"64 KiB"` |
| rate | `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s` (or `bps`, `kbps`, …), powers of 1000 | `"10 Gbit/s"` |
| frequency | `/s`, `k/s`, `M/s` (powers of 1000) | `"10 k/s"` |
| frame rate | `frame/s`, `kframe/s`, `Mframe/s` (powers of 1000) | `"100 kframe/s"` |
| share | `%` | `"3 %"` |
"""

_EXCLUDE_SECTION = f"""\
## `[[exclude]]`

{EXCLUDE_DESCRIPTION}

    [[exclude]]
    mtu = 9000
    link_rate = "1 Gbit/s"
"""

_TOGETHER_SECTION = f"""\
## `[[together]]`

{TOGETHER_DESCRIPTION}

    [[together]]
    mtu = 9000
    gro = "off"
"""

_LEVELS_SECTION = """\
## Levels

The levels of a factor are one value, a TOML list, or an expression in quotes:

| written | levels |
|---|---|
| `[1500, 9000]` | 1500 and 9000 |
| `"1500, 9000"` | the same |
| `"1..4"` | 1, 2, 3, 4 (counts only) |
| `"1, 3, 5 .. 9"` | 1, 3, 5, 7, 9: equal differences continue |
| `"1, 2, 4 .. 64"` | 1, 2, 4, 8, 16, 32, 64: equal ratios continue |
| `"64 B, 256 B, 1 KiB .. 64 KiB"` | 64 B, 256 B, 1 KiB, 4 KiB, 16 KiB, 64 KiB |
| `["8 KiB, 16 KiB, 32 KiB .. 128 KiB", "auto"]` | an expression in a list |

A range must reach its end exactly. Write values that contain commas (CPU lists) as a TOML list:
`["0,2", "1,3"]`.
"""

_OVERRIDES_SECTION = """\
## Change levels without editing the study

`vnetbench run STUDY --set NAME=LEVELS` changes a study for one campaign. The results file records the
arguments. You can use `--set` several times.

- `--set streams=1,4 --set mtu=9000`: other levels of a factor, or an additional factor.
- `--set 'irq_cpus=["0,2", "apart"]'`: a TOML list, for values that contain commas.
- `--set precision.half_width=5%`, `--set timing.duration='10 s'`: a key of a section.
"""


def format_reference_page() -> str:
    """Return the page in Markdown."""
    sections = list(SECTIONS.values())
    after_testbed = 1 + sections.index(SECTIONS["testbed"])
    sections[after_testbed:after_testbed] = TESTBED_TABLES.values()
    parts = [
        _PAGE_HEAD,
        *map(_format_section, sections),
        _format_factors(),
        _EXCLUDE_SECTION,
        _TOGETHER_SECTION,
        _QUANTITIES_SECTION,
        _LEVELS_SECTION,
        _OVERRIDES_SECTION,
    ]
    return "\n".join([*parts, _format_limits()])


def format_schema() -> str:
    """Return the JSON Schema as it is published."""
    return json.dumps(make_json_schema(), indent=2, ensure_ascii=False) + "\n"


def _format_section(section: type[StudySection]) -> str:
    is_table = section in TESTBED_TABLES.values()
    heading = f"[[{section.heading}]]" if is_table else f"[{section.heading}]"
    title = "The head of the file" if section.heading == HEAD_OF_FILE else f"`{heading}`"
    schema = make_section_schema(section)
    rows = [
        _format_key_row(
            name, get_key_format(field), schema["properties"][name], name in schema.get("required", ())
        )
        for name, field in section.fields_by_key().items()
    ]
    table = ["| key | meaning | value | default |", "|---|---|---|---|", *rows]
    return "\n".join([f"## {title}", "", schema["description"], "", *table, ""])


def _format_key_row(
    key_name: str, key_format: KeyFormat, schema: Mapping[str, Any], is_required: bool
) -> str:
    default = schema.get("default")
    default_text = default if isinstance(default, str) else json.dumps(default)
    default_cell = "required" if is_required else "–" if default is None else f"`{default_text}`"
    value_cell = f"{key_format.value_type.expected_form}, e.g. `{key_format.example}`"
    return f"| `{key_name}` | {schema['description']} | {value_cell} | {default_cell} |"


def _format_factors() -> str:
    lines = [f"## `[factors]`\n\n{FACTORS_DESCRIPTION} A study needs at least one factor.\n"]
    for factor in FACTORS.values():
        lines += _format_factor_lines(factor)
    return "\n".join(lines)


def _format_factor_lines(factor: Factor) -> Iterator[str]:
    default = (
        "the system's own setting"
        if factor.default is None
        else f"`{factor.value_type.format(factor.default)}`, which the bench sets in every trial"
    )
    default += "".join(
        f"; with `{workload}`: `{factor.value_type.format(level)}`"
        for workload, level in factor.workload_defaults.items()
    )
    examples = ", or ".join(f"`{factor.name} = {example}`" for example in factor.examples)
    yield f"### `{factor.name}`\n\n{factor.description}\n"
    if factor.workloads != WORKLOAD_NAMES:
        yield f"- Workloads: {', '.join(f'`{name}`' for name in factor.workloads)}."
    if factor.labs != LABS:
        yield f"- Labs: {', '.join(f'`{lab}`' for lab in factor.labs)}."
    if backend_has_factor(IPERF3_BACKEND, factor.name):
        yield "- Also available with an endpoint that only has an iperf3 server."
    yield f"- Level: {factor.value_type.expected_form}."
    yield f"- Default: {default}."
    yield f"- Example: {examples}.\n"


def _format_limits() -> str:
    return f"""\
## Limits

A factor has at most {MAX_LEVELS:,} levels. A study has at most {MAX_TREATMENTS:,} combinations of levels and
{MAX_TABLES_PER_HEADING} exclusions.
"""


def main(folder: Path) -> None:
    """Write the page and the schema to a folder."""
    (folder / PAGE_FILE_NAME).write_text(format_reference_page())
    (folder / SCHEMA_FILE_NAME).write_text(format_schema())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
