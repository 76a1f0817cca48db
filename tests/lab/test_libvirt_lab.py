"""The lab `libvirt` with a real VM: hardware changed, measured over SSH, and restored, also after kill -9."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.faults import bench_process as bench
from tests.lab.libvirt_guests import LibvirtGuests, define_guests, needs_guest_programs
from tests.libvirt_daemon import needs_libvirt
from vnetbench.lab.domains.journal import list_domain_records
from vnetbench.lab.domains.restore import restore_left_domain
from vnetbench.lab.libvirt.domains import read_definition
from vnetbench.results.file import ResultsFile

pytest.importorskip("libvirt")
pytestmark = [needs_libvirt, needs_guest_programs]

VM = "web-01"
STUDY = """\
title = "Adapters of a VM"
workload = "tcp_rr"

[testbed]
lab = "libvirt"
connection = "{uri}"

[[testbed.host]]
name = "here"
local = true

[[testbed.host]]
name = "web"
ssh = "root@web-01"
domain = "web-01"

[factors]
adapter = "e1000e"
vcpu_pin = "0"

[timing]
duration = "1 s"

[precision]
min_trials = 2
max_trials = 2
"""


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtGuests]:
    with define_guests(tmp_path_factory.mktemp("libvirt")) as guests:
        yield guests


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + bench.PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.1)


def definition(domain: Any) -> str:
    return ElementTree.canonicalize(ElementTree.tostring(read_definition(domain)), strip_text=True)


def running_model(domain: Any) -> str | None:
    if not domain.isActive():
        return None
    model = ElementTree.fromstring(domain.XMLDesc(0)).find("devices/interface/model")
    return None if model is None else model.get("type")


def wait_for_guest(domain: Any) -> None:
    """Wait until the guest agent runs, which can shut the guest down."""
    target = "devices/channel/target[@state='connected']"
    wait_until(lambda: ElementTree.fromstring(domain.XMLDesc(0)).find(target) is not None)


def write_study(folder: Path, guests: LibvirtGuests) -> Path:
    return bench.write_study(folder, STUDY.format(uri=guests.daemon.uri))


@pytest.mark.lab
def test_a_study_changes_the_hardware_measures_and_restores_the_vm(
    guests: LibvirtGuests, tmp_path: Path
) -> None:
    with guests.domain(VM) as domain:
        before = definition(domain)
        domain.create()
        wait_for_guest(domain)
        first_id = domain.ID()
        results = tmp_path / "adapters.vnb"
        code, output = bench.run(
            "run",
            write_study(tmp_path, guests),
            "-o",
            results,
            inside=guests.namespace,
            env=guests.environment,
        )
        assert code == 0, output
        file = ResultsFile.open_to_read(results)
        try:
            trials = [trial for trial in file.trials() if not trial.failure]
        finally:
            file.close()
        assert len(trials) == 2
        assert all(trial.effective["vcpu_pin"] == {"web": ["0", "0"]} for trial in trials), trials[
            0
        ].effective
        _, shown = bench.run("show", "--json", results)
        assert '"e1000e"' in shown
        # Restored: the definition, and a restart with the old adapter.
        assert definition(domain) == before
        assert running_model(domain) == "virtio" and domain.ID() > first_id + 1
        assert not list((guests.folder / "state/vnetbench/domains").glob("*.json"))
        wait_for_guest(domain)
        domain.shutdown()
        wait_until(lambda: not domain.isActive())


@pytest.mark.lab
def test_a_killed_bench_leaves_a_journal_that_restores_the_vm(
    guests: LibvirtGuests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", guests.environment["XDG_STATE_HOME"])
    with guests.domain(VM) as domain:
        before = definition(domain)
        process = bench.start(
            "run", write_study(tmp_path, guests), "-o", tmp_path / "killed.vnb",
            inside=guests.namespace, env=guests.environment,
        )  # fmt: skip
        wait_until(lambda: process.poll() is not None or running_model(domain) == "e1000e")
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        (record,) = list_domain_records()
        assert not isinstance(record, Exception) and not record.is_in_use
        assert definition(domain) != before and "passwd" not in json.dumps(dict(record.originals))
        wait_for_guest(domain)
        assert restore_left_domain(record)
        # The VM was shut down before the study.
        assert definition(domain) == before and not domain.isActive()
        assert list_domain_records() == []
