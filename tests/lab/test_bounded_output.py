"""Output of commands on hosts: bounded in size and time, and complete below the bounds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.hosts import bounded_output, ssh
from vnetbench.lab.hosts.deployment import survey_host
from vnetbench.lab.hosts.ssh_errors import HostUnreachable


def test_output_errors_and_exit_code_of_a_command_arrive(tmp_path: Path) -> None:
    text = tmp_path / "input"
    text.write_text("from a file\n")
    machine = ssh.local_machine("web-01", "t-output")
    result = machine.run('cat; echo "$1" >&2; exit 3', "a word", input_file=text)
    assert result == ssh.CommandResult(3, "from a file\n", "a word\n")
    # Without a file the input is empty, so that the command does not wait for it.
    assert machine.run("cat").output == ""


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_host_that_writes_without_end_is_refused_with_its_name(stream: str) -> None:
    machine = ssh.local_machine("web-01", "t-output")
    with pytest.raises(BenchError, match="wrote more than 4 MiB") as refused:
        machine.run(f"exec yes {stream}")
    assert refused.value.where == "web-01"


@pytest.mark.parametrize("script", ["exec sleep 60", "exec >&- 2>&-; exec sleep 60"])
def test_a_command_that_does_not_end_is_killed(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "COMMAND_TIMEOUT_S", 0.3)
    started = time.monotonic()
    with pytest.raises(HostUnreachable, match="did not end"):
        ssh.local_machine("web-01", "t-output").run(script)
    assert time.monotonic() - started < 50


def test_a_host_that_reports_only_a_part_of_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ssh.local_machine("web-01", "t-output")
    monkeypatch.setattr("vnetbench.lab.hosts.deployment.SURVEY_SCRIPT", "echo @uid 0")
    with pytest.raises(BenchError, match="does not run commands"):
        survey_host(machine)


def test_all_output_below_the_bound_arrives() -> None:
    size = bounded_output.MAX_OUTPUT_BYTES // 2
    machine = ssh.local_machine("web-01", "t-output")
    assert len(machine.run(f"head -c {size} /dev/zero").output) == size
