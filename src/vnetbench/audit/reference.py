"""Generate the page of audit rules. Run as a module, it writes the page to `docs/`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from vnetbench.audit.measured_effects import load_measured_effects
from vnetbench.audit.output.groups import limit_text
from vnetbench.audit.rules import RULE_FILES, Rule, load_rules, rules_of_file

PAGE_FILE_NAME = "audit-rules.md"
_TITLES = {
    "linux_interfaces": "Interfaces of Linux machines",
    "linux_machines": "Linux machines",
    "linux_teams": "Bonds, and Open vSwitch",
    "virtual_machines": "VMs of vSphere",
    "kvm": "VMs of libvirt and Proxmox VE",
    "vsphere_hosts": "ESXi hosts",
    "windows": "Windows machines",
}
_PAGE_HEAD = """\
# Audit rules

`vnetbench audit` judges settings by the rules on this page. [audit.md](audit.md) describes the command.
[Add an audit rule](how-to/extend/add-an-audit-rule.md) shows how to add one.

- An *error* does not work or loses packets. A *warning* costs performance. A *note* can matter.
- A *limit* that no source states is vnetbench's own choice. The column *why* then says why it has this value.
- Shares of lost packets are judged from 10,000 packets on.
- The last column says what shows the effect: a study of `studies/`, or a cause that `vnetbench explain` names
  ([causes.md](causes.md)).
- *Measured effect here* is the goodput with the fault, divided by that without it, and its 95 % interval.
  Each was measured in the testbed that is named, on a machine whose CPUs other programs used, too. On yours
  the effect differs, so run the study. `make bench-audit` measures all of them
  ([bench/README.md](../bench/README.md)).

This page is generated from the rules in `src/vnetbench/audit/rules/*.toml`
(`python -m vnetbench.audit.reference docs`). There are {count} rules.
"""


def rules_page() -> str:
    """Return the page in Markdown."""
    lines = [_PAGE_HEAD.format(count=len(load_rules()))]
    for file in RULE_FILES:
        lines += [f"## {_TITLES[file]}\n", *_table_lines(rules_of_file(file)), ""]
    return "\n".join(lines)


def _table_lines(rules: list[Rule]) -> Iterator[str]:
    effects = load_measured_effects()
    yield "| rule | finds that | expected | why | source | shown by |"
    yield "|---|---|---|---|---|---|"
    for rule in rules:
        shown_by = [f"study {rule.proof.study}"] if rule.proof else []
        shown_by += [f"cause {rule.cause}"] if rule.cause else []
        last = [", ".join(shown_by) or "–"]
        if rule.id in effects:
            last.append(f"Measured effect here: {effects[rule.id].text}")
        why = [rule.why, f"Limit: {limit_text(rule)}"] if rule.threshold_reason else [rule.why]
        cells = ([rule.problem], [rule.expected], why, [rule.source], last)
        texts = " | ".join("<br>".join(_format_cell(text) for text in cell) for cell in cells)
        yield f"| `{rule.id}`<br>*{rule.severity}*, {', '.join(rule.platforms)} | {texts} |"


def _format_cell(text: str) -> str:
    """Return a text of a rule for a cell; the facts that it fills in are names."""
    return re.sub(r"\{(\w+)\}", r"`\1`", text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*"))


def main(folder: Path) -> None:
    """Write the page to a folder."""
    (folder / PAGE_FILE_NAME).write_text(rules_page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
