"""The table of `team predict` shows IPv6 addresses as they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.pure


def test_ipv6_addresses_are_neither_markup_nor_emoji() -> None:
    flow = "[fd76:100:7::1]:50000-[fd76::100:2]:5201"
    arguments = ["team", "predict", "--policy", "layer3+4", "--links", "3", "--flow", flow]
    command = [sys.executable, "-m", "vnetbench", *arguments]
    printed = subprocess.run(command, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    assert "[fd76:100:7::1]:50000" in printed.stdout and "[fd76::100:2]:5201" in printed.stdout
