"""The command `audit`: read settings, judge them, and say how to correct them. It changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vnetbench.commands import exit_codes
from vnetbench.errors import BenchError
from vnetbench.printable import make_printable

if TYPE_CHECKING:
    from vnetbench.audit.finding import AuditResult
    from vnetbench.audit.inventory import Inventory

FORMATS = ("table", "json", "markdown", "html", "sarif")


@click.command("audit")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--format", "output_format", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the output.")  # fmt: skip
@click.option("--json", "output_format", flag_value="json", help="The same as --format json.")
@click.option(
    "--baseline", type=click.Path(path_type=Path), help="JSON of an earlier audit. Show only what is new."
)
@click.option("--disable", "disabled", multiple=True, metavar="RULE", help="Leave out a rule. Repeatable.")
@click.option(
    "--save-export",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Store what is read of a vSphere server. FILE can be a target later.",
)
@click.option("--rules", "list_rules", is_flag=True, help="List the rules and stop.")
@click.option("--windows-script", is_flag=True, help="Print the script for a Windows guest and stop.")
@click.option(
    "--linux-script", is_flag=True, help="Print the script for a Linux machine without SSH and stop."
)
def audit(
    targets: Sequence[str],
    output_format: str,
    baseline: Path | None,
    disabled: Sequence[str],
    save_export: Path | None,
    list_rules: bool,
    windows_script: bool,
    linux_script: bool,
) -> int:
    """Read and judge the settings of machines, VMs and switches, without load.

    A TARGET is local (the default), a machine as for ssh, a libvirt URI (qemu:///system), Proxmox VE's API
    (proxmox://HOST), a vSphere server (vsphere://USER@HOST/), a .vmx file, a libvirt domain XML, a Proxmox VE
    configuration, an export of vSphere as JSON, the output of one of the scripts, or a folder of these.

    Exit codes: 0 no error and no warning, 5 some, 2 bad input, 4 a target could not be read.
    """
    if windows_script or linux_script:
        from vnetbench.audit.linux.collect import linux_script as linux_text
        from vnetbench.audit.windows.guest import windows_script as windows_text

        click.echo(windows_text() if windows_script else linux_text(), nl=False)
        return 0
    from vnetbench.audit.rules import load_rules, select_rules

    rules = select_rules(load_rules(), tuple(disabled))
    if list_rules:
        from vnetbench.audit.output.json_form import rules_json
        from vnetbench.audit.output.table import rules_table

        click.echo(rules_json(rules) if output_format == "json" else rules_table(rules))
        return 0
    from vnetbench.audit.baseline import read_baseline
    from vnetbench.audit.judge import judge

    known = read_baseline(baseline) if baseline else frozenset()
    inventories, errors = _read_targets(targets or ("local",), save_export)
    result = judge(inventories, rules).without(known)
    click.echo(_format_result(result, output_format))
    for error in errors:
        click.echo(f"vnetbench: {make_printable(str(error), keep=chr(10))}", err=True)
    if errors:
        return exit_codes.INPUT_PARTLY_READ
    return exit_codes.AUDIT_FOUND if result.is_serious else 0


def _read_targets(
    targets: Sequence[str], save_export: Path | None
) -> tuple[list[Inventory], list[BenchError]]:
    """Return the inventories of all targets, and the errors; raises an error if nothing can be read."""
    from vnetbench.audit.targets import read_target
    from vnetbench.lab.vsphere.address import is_vsphere_address

    if save_export is not None and sum(map(is_vsphere_address, targets)) != 1:
        raise BenchError(
            "an export is that of one vSphere server",
            where="--save-export",
            fix="name one: vsphere://USER@HOST/",
        )
    inventories: list[Inventory] = []
    errors: list[BenchError] = []
    for target in dict.fromkeys(targets):
        for each in read_target(target, save_export):
            if isinstance(each, BenchError):
                errors.append(each)
            else:
                inventories.append(each)
    if errors and not inventories:
        raise errors[0]
    return inventories, errors


def _format_result(result: AuditResult, output_format: str) -> str:
    from vnetbench.audit.output.html import audit_html
    from vnetbench.audit.output.json_form import audit_json
    from vnetbench.audit.output.markdown import audit_markdown
    from vnetbench.audit.output.sarif import audit_sarif
    from vnetbench.audit.output.table import audit_table

    if output_format == "table":
        return audit_table(result, shutil.get_terminal_size().columns)
    return {"json": audit_json, "markdown": audit_markdown, "html": audit_html, "sarif": audit_sarif}[
        output_format
    ](result)
