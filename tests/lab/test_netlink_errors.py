"""Errors of netlink code name what is missing: a namespace, a file or a program."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab import netlink

NAME = "vnb.netlink-errors.a1"


@pytest.fixture
def namespace() -> Iterator[str]:
    netlink.create_namespace(NAME)
    yield NAME
    netlink.remove_namespace(NAME)


def test_a_missing_namespace_is_named() -> None:
    with pytest.raises(BenchError, match=re.escape(f"the namespace {NAME} does not exist")):  # noqa: SIM117
        with netlink.open_in_namespace(NAME):
            raise AssertionError("opened")


def test_a_missing_second_namespace_is_named_instead_of_the_open_one(namespace: str) -> None:
    with pytest.raises(BenchError, match=r"the namespace vnb\.gone\.b1 does not exist") as raised:  # noqa: SIM117
        with netlink.open_in_namespace(namespace) as ipr:
            ipr.link("set", index=1, net_ns_fd="vnb.gone.b1")
    assert raised.value.where == "vnb.gone.b1"


def test_a_missing_program_is_not_a_missing_namespace(namespace: str) -> None:
    with pytest.raises(BenchError, match="no-such-program is missing") as raised:  # noqa: SIM117
        with netlink.open_in_namespace(namespace):
            subprocess.run(["no-such-program"], check=True)
    assert "namespace" not in raised.value.what and raised.value.fix


def test_an_error_that_names_no_file_stays_as_it_is(namespace: str) -> None:
    with pytest.raises(FileNotFoundError):  # noqa: SIM117
        with netlink.open_in_namespace(namespace):
            raise FileNotFoundError
