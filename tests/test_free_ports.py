"""Ports for tests: each is taken once, also by several processes, and a program in the way is noticed."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests import free_ports
from tests.free_ports import LOOPBACK, list_ports_outside, take_free_port

pytestmark = pytest.mark.pure

TAKE_ALL = """\
from tests import free_ports
free_ports.list_ports_outside = lambda *_: [{port}]
free_ports.take_free_port()
"""


def test_two_processes_never_take_the_same_port() -> None:
    port = take_free_port()
    taking = subprocess.run(
        [sys.executable, "-c", TAKE_ALL.format(port=port)], capture_output=True, text=True
    )
    assert taking.returncode != 0 and "no port of loopback is free" in taking.stderr


def test_a_port_of_a_running_program_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as other:
            other.bind((LOOPBACK, 0))
            port = other.getsockname()[1]
            monkeypatch.setattr(free_ports, "list_ports_outside", lambda *_, port=port: [port])
            with pytest.raises(AssertionError, match="no port of loopback is free"):
                take_free_port()


def test_ports_that_the_kernel_assigns_are_avoided_if_others_exist() -> None:
    assert list_ports_outside(32_768, 60_999)[0] == list_ports_outside(1024, 65_535)[0]
    assert not set(list_ports_outside(32_768, 60_999)) & set(range(32_768, 61_000))
