"""The lab `libvirt` with two real guests: killed in a trial, measured VM to VM, restored byte for byte."""

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
from tests.lab.libvirt_guest import LibvirtGuests, define_guests, needs_guest_programs
from tests.libvirt_daemon import needs_libvirt
from vnetbench.lab.libvirt.domains import read_definition
from vnetbench.results.file import ResultsFile

pytest.importorskip("libvirt")
pytestmark = [needs_libvirt, needs_guest_programs, pytest.mark.lab]

NAMES_IN_STUDY = ("web", "db")
STUDY = """\
title = "Adapters of two VMs"
workload = "tcp_rr"

[testbed]
lab = "libvirt"
connection = "{uri}"
audit = false

[[testbed.host]]
name = "web"
ssh = "root@web-01"
domain = "web-01"

[[testbed.host]]
name = "db"
ssh = "root@db-01"
domain = "db-01"

[factors]
adapter = "e1000"
vcpu_pin = "0"

[timing]
duration = "{duration}"

[precision]
min_trials = 2
max_trials = 2
"""


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[LibvirtGuests]:
    with define_guests(tmp_path) as guests:
        yield guests


def definitions(domain: Any) -> list[str]:
    """Return the definition without and with the password of its display."""
    return [read_definition(domain, has_passwords=shown) for shown in (False, True)]


def running_model(domain: Any) -> str | None:
    model = ElementTree.fromstring(domain.XMLDesc(0)).find("devices/interface/model")
    return None if model is None else model.get("type")


def test_a_killed_campaign_and_the_next_one_leave_the_vms_as_they_were(
    guests: LibvirtGuests, tmp_path: Path
) -> None:
    journals = tmp_path / "state/vnetbench/domains"
    with guests.domains() as domains:
        before = [definitions(domain) for domain in domains]
        assert all("passwd='secret'" in with_password for _, with_password in before)

        # Long trials: the kill comes in the middle of the second one.
        killed = tmp_path / "killed.vnb"
        study = bench.write_study(tmp_path, STUDY.format(uri=guests.daemon.uri, duration="3 s"))
        process = bench.start(
            "run", study, "-o", killed, inside=guests.namespace, env=guests.environment
        )  # fmt: skip
        bench.wait_for_trials(killed, 1)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        for domain, original in zip(domains, before, strict=True):
            assert domain.isActive() and running_model(domain) == "e1000"
            assert definitions(domain) != original
        kept = [path.read_text() for path in journals.glob("*.json")]
        assert len(kept) == 2 and not any("secret" in text for text in kept)

        finished = tmp_path / "finished.vnb"
        study.write_text(STUDY.format(uri=guests.daemon.uri, duration="1 s"))
        code, output = bench.run(
            "run", study, "-o", finished, inside=guests.namespace, env=guests.environment
        )  # fmt: skip
        assert code == 0, output
        assert [definitions(domain) for domain in domains] == before
        assert not any(domain.isActive() for domain in domains) and not list(journals.glob("*.json"))
    check_results(finished)


def check_results(path: Path) -> None:
    """Check that the results prove the hardware, at the hypervisor and in the guests."""
    file = ResultsFile.open_to_read(path)
    try:
        trials = [trial for trial in file.trials() if not trial.failure]
    finally:
        file.close()
    assert len(trials) == 2
    for trial in trials:
        assert trial.effective["vm_adapter"] == {name: {"model@type": "e1000"} for name in NAMES_IN_STUDY}
        assert trial.effective["vm_driver"] == dict.fromkeys(NAMES_IN_STUDY, "e1000")
        assert trial.effective["vcpu_pin"] == {name: ["0"] for name in NAMES_IN_STUDY}
    _, shown = bench.run("show", "--json", path)
    (treatment,) = json.loads(shown)["treatments"]
    assert treatment["effective"]["vm_driver"] == dict.fromkeys(NAMES_IN_STUDY, "e1000")
