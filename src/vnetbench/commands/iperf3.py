"""The command group `iperf3`, which runs the agent's implementation of the protocol (docs/iperf3.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

import click

from vnetbench.agents.binary import agent_binary_path
from vnetbench.errors import BenchError

# The agent parses these options, --help too, so that they are defined in one place.
PASS_THROUGH_SETTINGS = {
    "ignore_unknown_options": True,
    "help_option_names": [],
    "allow_interspersed_args": False,
}


@click.group("iperf3")
def iperf3_group() -> None:
    """Run an iperf3-compatible server or client."""


@iperf3_group.command(context_settings=PASS_THROUGH_SETTINGS)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def serve(options: Sequence[str]) -> NoReturn:
    """Serve stock iperf3 clients, several at the same time."""
    _exec_agent("iperf3-serve", options)


@iperf3_group.command(context_settings=PASS_THROUGH_SETTINGS)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def client(options: Sequence[str]) -> NoReturn:
    """Run one test against an iperf3 server."""
    _exec_agent("iperf3-client", options)


def _exec_agent(subcommand: str, options: Sequence[str]) -> NoReturn:
    """Replace this process with the agent in this role.

    Raises:
        BenchError: The agent cannot be executed.
    """
    binary = str(agent_binary_path())
    try:
        os.execv(binary, [binary, subcommand, *options])
    except OSError as error:
        raise BenchError(
            f"cannot run the agent: {error.strerror}",
            where=binary,
            fix="build the agent for this machine: make install",
        ) from error
