"""The lab `libvirt` with a real guest: killed in a trial, measured over SSH, and restored byte for byte."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.faults import bench_process as bench
from tests.lab.libvirt_guest import NAME, LibvirtGuest, define_guest, needs_guest_programs
from tests.libvirt_daemon import needs_libvirt
from vnetbench.lab.libvirt.domains import read_definition
from vnetbench.results.file import ResultsFile

pytest.importorskip("libvirt")
pytestmark = [needs_libvirt, needs_guest_programs, pytest.mark.lab]

STUDY = f"""\
title = "Adapters of a VM"
workload = "tcp_rr"

[testbed]
lab = "libvirt"
connection = "{{uri}}"
audit = false

[[testbed.host]]
name = "here"
local = true

[[testbed.host]]
name = "web"
ssh = "root@{NAME}"
domain = "{NAME}"

[factors]
adapter = "e1000"
vcpu_pin = "0"

[timing]
duration = "{{duration}}"

[precision]
min_trials = 2
max_trials = 2
"""


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[LibvirtGuest]:
    with define_guest(tmp_path) as guest:
        yield guest


def definitions(domain: Any) -> list[str]:
    """Return the definition without and with the password of its display."""
    return [read_definition(domain, has_passwords=shown) for shown in (False, True)]


def running_model(domain: Any) -> str | None:
    model = ElementTree.fromstring(domain.XMLDesc(0)).find("devices/interface/model")
    return None if model is None else model.get("type")


def test_a_killed_campaign_and_the_next_one_leave_the_vm_as_it_was(
    guest: LibvirtGuest, tmp_path: Path
) -> None:
    journals = tmp_path / "state/vnetbench/domains"
    with guest.domain() as domain:
        before = definitions(domain)
        assert "passwd='secret'" in before[1]

        # Long trials: the kill comes in the middle of the second one.
        killed = tmp_path / "killed.vnb"
        study = bench.write_study(tmp_path, STUDY.format(uri=guest.daemon.uri, duration="3 s"))
        process = bench.start(
            "run", study, "-o", killed, inside=guest.namespace, env=guest.environment
        )  # fmt: skip
        bench.wait_for_trials(killed, 1)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert domain.isActive() and running_model(domain) == "e1000"
        assert definitions(domain) != before
        (journal,) = journals.glob("*.json")
        assert "secret" not in journal.read_text()

        finished = tmp_path / "finished.vnb"
        study.write_text(STUDY.format(uri=guest.daemon.uri, duration="1 s"))
        code, output = bench.run(
            "run", study, "-o", finished, inside=guest.namespace, env=guest.environment
        )  # fmt: skip
        assert code == 0, output
        assert definitions(domain) == before
        assert not domain.isActive() and not list(journals.glob("*.json"))
    check_results(finished)


def check_results(path: Path) -> None:
    """Check that the results prove the hardware, at the hypervisor and in the guest."""
    file = ResultsFile.open_to_read(path)
    try:
        trials = [trial for trial in file.trials() if not trial.failure]
    finally:
        file.close()
    assert len(trials) == 2
    for trial in trials:
        assert trial.effective["vm_adapter"] == {"web": {"model@type": "e1000"}}
        assert trial.effective["vm_driver"] == {"web": "e1000"}
        assert trial.effective["vcpu_pin"] == {"web": ["0"]}
    _, shown = bench.run("show", "--json", path)
    (treatment,) = json.loads(shown)["treatments"]
    assert treatment["effective"]["vm_driver"] == {"web": "e1000"}
