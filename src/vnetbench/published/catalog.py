"""The published tables that a study can name, and their workloads."""

from __future__ import annotations

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable

TABLE_NAMES = ("packet-forwarding-2011", "ntttcp-vmxnet3-2011")
"""Names of tables. Each table has three files.

`NAME.csv` is the table as published. `NAME.mapping.toml` maps its columns, in the format of `vnetbench import
--mapping`. `NAME.toml` describes the measurements.
"""


def workload_of_table(name: str) -> str:
    """Return the workload of a published table."""
    workload: str = tomllib.loads(find_table_file(f"{name}.mapping.toml").read_text(encoding="utf-8"))[
        "workload"
    ]
    return workload


def find_table_file(name: str) -> Traversable:
    """Return a data file of this package."""
    return resources.files("vnetbench.published").joinpath(name)
