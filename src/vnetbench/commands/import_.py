"""The command `import`: what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from vnetbench.study.workloads import WORKLOADS


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Results file to make.  [default: the log's name, .vnb]",
)
@click.option(
    "--factor",
    "factors",
    multiple=True,
    metavar="NAME=LEVEL",
    help="What the logs do not tell of all their runs: mtu=9000, or a label of your own, label_host=esx7.",
)
@click.option("--workload", type=click.Choice(WORKLOADS), help="Import the runs of this workload alone.")
@click.option(
    "--mapping",
    "mapping_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What the columns of tables (CSV, TSV, XLSX) are: a TOML file, see docs/importers.md.",
)
@click.option("--strict", is_flag=True, help="Make no results file unless all was read.")
def import_(
    paths: Sequence[Path],
    output: Path | None,
    factors: Sequence[str],
    workload: str | None,
    mapping_path: Path | None,
    strict: bool,
) -> int:
    """Read logs of other tools into a results file: iperf3, NTttcp, netperf and more.

    PATHS are logs, folders and archives (.zip, .gz, .xz, .bz2, .tar). The tool and its version are
    recognised. Tables need a --mapping. What esxtop -b counted is put beside the runs of that time. Exits
    with 4 where not all could be read.
    """
    from vnetbench.commands.import_logs import import_paths

    return import_paths(paths, output, factors, workload, mapping_path, is_strict=strict)
