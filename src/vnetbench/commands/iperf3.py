"""The command group `iperf3`: hands over to the agent, which speaks the protocol (docs/iperf3.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

import click

from vnetbench.agents.binary import agent_binary
from vnetbench.errors import BenchError

# The agent reads its own options, --help too: they are iperf3's, and in one place.
HANDED_OVER = {"ignore_unknown_options": True, "help_option_names": [], "allow_interspersed_args": False}


@click.group()
def iperf3() -> None:
    """Measure against what speaks iperf3 already: serve its clients, or be one."""


@iperf3.command(context_settings=HANDED_OVER)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def serve(options: Sequence[str]) -> NoReturn:
    """Serve stock iperf3 clients, several at once."""
    _become("iperf3-serve", options)


@iperf3.command(context_settings=HANDED_OVER)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def client(options: Sequence[str]) -> NoReturn:
    """Run one test against any iperf3 server."""
    _become("iperf3-client", options)


def _become(role: str, options: Sequence[str]) -> NoReturn:
    """Replace this process by the agent in that role. Raises BenchError when it cannot be run."""
    binary = str(agent_binary())
    try:
        os.execv(binary, [binary, role, *options])
    except OSError as error:
        raise BenchError(
            f"the agent cannot be run: {error.strerror}",
            where=binary,
            fix="make install builds it for this machine",
        ) from error
