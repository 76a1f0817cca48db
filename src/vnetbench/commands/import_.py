"""The command `import`: its arguments and options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from vnetbench.study.workloads import WORKLOAD_NAMES


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Results file to create.  [default: the log's name with .vnb]",
)
@click.option(
    "--factor",
    "factors",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Set a level that the logs do not contain: mtu=9000, or a label of your own: label_host=esx7.",
)
@click.option("--workload", type=click.Choice(WORKLOAD_NAMES), help="Import only the runs of this workload.")
@click.option(
    "--mapping",
    "mapping_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML file that describes the columns of tables (CSV, TSV, XLSX); see docs/importers.md.",
)
@click.option("--strict", is_flag=True, help="Create no results file unless every run was read.")
def import_(
    paths: Sequence[Path],
    output: Path | None,
    factors: Sequence[str],
    workload: str | None,
    mapping_path: Path | None,
    strict: bool,
) -> int:
    """Import logs of other tools (iperf3, NTttcp, netperf and more) into a results file.

    PATHS are logs, folders and archives (.zip, .gz, .xz, .bz2, .tar). The tool and its version are
    detected. Tables need a --mapping. Counters from `esxtop -b` are attached to the runs of the same time.
    The exit code is 4 if something could not be read.
    """
    from vnetbench.commands.import_logs import import_paths

    return import_paths(paths, output, factors, workload, mapping_path, is_strict=strict)
