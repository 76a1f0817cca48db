"""`vnetbench reference`: figures of published measurements, as tables and beside one's own."""

from __future__ import annotations

import click
from rich.console import Console


@click.group()
def reference() -> None:
    """Published figures: name one as reference:NAME wherever a results file is named."""


@reference.command("list")
def list_() -> None:
    """Which published tables there are."""
    from vnetbench.report.tables.reference_table import reference_list

    console = Console(highlight=False)
    for line in reference_list():
        console.print(line)


@reference.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="For a program; documented in docs/show-json.md.")
def show(name: str, as_json: bool) -> None:
    """Show a published table with its source and conditions."""
    from vnetbench.estimate.published_reference import PREFIX, reference_summary
    from vnetbench.report.export import campaign_export
    from vnetbench.report.tables.text_table import Unpadded
    from vnetbench.report.tables.reference_table import reference_table

    summary = reference_summary(name.removeprefix(PREFIX))
    if as_json:
        click.echo(campaign_export.as_json(summary))
    else:
        Console(highlight=False).print(Unpadded(reference_table(summary)))
