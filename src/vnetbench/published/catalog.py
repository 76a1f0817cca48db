"""Which published tables there are, and what of them a study must know to name one."""

from __future__ import annotations

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable

TABLE_NAMES = ("packet-forwarding-2011", "ntttcp-vmxnet3-2011")
"""What a study may name. Each is `NAME.csv`, as it was published; `NAME.mapping.toml`, what its columns mean,
as `vnetbench import --mapping` reads it; `NAME.toml`, what else is to be said of it."""


def table_workload(name: str) -> str:
    """The workload whose figures a published table has."""
    workload: str = tomllib.loads(data_file(f"{name}.mapping.toml").read_text(encoding="utf-8"))["workload"]
    return workload


def data_file(name: str) -> Traversable:
    """A file of this folder."""
    return resources.files("vnetbench.published").joinpath(name)
