"""The command group `reference`: tables of published measurements."""

from __future__ import annotations

import click
from rich.console import Console


@click.group("reference")
def reference_group() -> None:
    """Show published measurements.

    Other commands accept reference:NAME in place of a results file.
    """


@reference_group.command("list")
def list_published_tables() -> None:
    """List the published tables."""
    from vnetbench.report.tables.reference_table import published_table_lines

    console = Console(highlight=False, emoji=False)
    for line in published_table_lines():
        console.print(line)


@reference_group.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (see docs/show-json.md).")
def show_published_table(name: str, as_json: bool) -> None:
    """Show a published table with its source and test conditions."""
    from vnetbench.estimate.published_reference import PUBLISHED_TABLE_PATH_PREFIX, published_table_summary
    from vnetbench.report.export.campaign_json import campaign_json
    from vnetbench.report.tables.reference_table import published_values_table
    from vnetbench.report.tables.text_table import TrimmedLines

    summary = published_table_summary(name.removeprefix(PUBLISHED_TABLE_PATH_PREFIX))
    if as_json:
        click.echo(campaign_json(summary))
    else:
        Console(highlight=False, emoji=False).print(TrimmedLines(published_values_table(summary)))
