"""Live migration of a guest: what needs no guest, and real migrations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.own_testbeds import list_own_testbeds
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.estimate.disruption import EventWindow, find_outages
from vnetbench.lab import netlink, registry
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest.hardware import (
    Adapter,
    AdapterBackend,
    BootImages,
    Hardware,
    QemuRuntimeFiles,
    qemu_command,
)
from vnetbench.lab.guest.lab import QemuLab, guest_shape
from vnetbench.lab.guest.migration import GuestMigration, MigrationReport
from vnetbench.lab.guest.prerequisites import prepare_guests
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.results.records import HOST
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import DISRUPTION

SPEC = TestbedSpec(lab=QEMU)
REPLY: Mapping[str, Any] = {
    "status": "completed",
    "total-time": 834,
    "downtime": 107,
    "setup-time": 1,
    "ram": {"transferred": 109278401, "total": 268967936, "dirty-sync-count": 3, "remaining": 0},
}
PARAMETERS = {"downtime-limit": 300, "max-bandwidth": 134217728}
EVENT_LIMIT_S = 60.0
LOAD_S = 8.0
"""A migration of a second leaves time for a busy machine."""
"""Limit of a migration that takes a second on a machine that is not busy."""


def levels(**factors: Level) -> dict[str, Level]:
    requested: dict[str, Level] = {"event": "live-migration", "rate": 500.0, **factors}
    return complete_levels(requested, DISRUPTION, QEMU)


@pytest.mark.pure
def test_a_report_has_the_numbers_of_qemu() -> None:
    report = MigrationReport.from_qmp(REPLY, PARAMETERS)
    assert (report.total_ms, report.downtime_ms, report.rounds) == (834, 107, 3)
    assert (report.transferred_bytes, report.memory_bytes) == (109278401, 268967936)


@pytest.mark.pure
def test_a_report_without_a_number_fails_the_trial() -> None:
    with pytest.raises(TrialFailed, match="has no 'downtime'"):
        MigrationReport.from_qmp({name: value for name, value in REPLY.items() if name != "downtime"}, {})


@pytest.mark.pure
def test_the_new_qemu_announces_the_address_of_the_guest_except_in_a_serial_number(tmp_path: Path) -> None:
    plugs = [AdapterBackend("tap,ifname=x", "52:54:00:03:01:00")] * 2
    line = qemu_command(
        "qemu",
        Hardware("tcg", 1, (Adapter("virtio-net"), Adapter("e1000e"))),
        BootImages(tmp_path / "vmlinuz", tmp_path / "initramfs"),
        plugs,
        QemuRuntimeFiles(tmp_path, "g1.2"),
        awaits_snapshot=True,
        generation_id="324e6eaf-d1d1-4bf6-bf41-b9bb6c91fb87",
    )
    devices = [word for word in line if "mac=" in word]
    assert "mac=52:54:00:03:01:00" in devices[0]
    assert "mac=52:54:00:00:00:01" in devices[1]
    assert "vmgenid,guid=324e6eaf-d1d1-4bf6-bf41-b9bb6c91fb87" in line


@pytest.fixture(scope="module")
def lab() -> QemuLab:
    return QemuLab(SPEC, "a test", prepare_guests([guest_shape(levels(), SPEC)]))


@pytest.fixture
def testbed(lab: QemuLab) -> Iterator[GuestTestbed]:
    created = lab.create_testbed("t-migration", lab.testbed_shape(levels()))
    yield created
    created.close()


def qemu_processes(testbed_name: str) -> set[int]:
    """Return the processes that `lab clean` would end as QEMUs of a testbed."""
    programs = {pid: Path(f"/proc/{pid}/exe") for pid in registry.testbed_pids(testbed_name)}
    return {pid for pid, program in programs.items() if program.resolve().name.startswith("qemu")}


@pytest.mark.lab
def test_a_guest_migrates_there_and_back_while_a_flow_runs_through_it(lab: QemuLab) -> None:
    load = TrialLoad(levels(event_duration=EVENT_LIMIT_S), LOAD_S, 0.1, DISRUPTION)
    with closing(LabInstrument(lab, SPEC)) as instrument:
        trials = [instrument.measure(load, lambda: False).measurement for _ in range(2)]
        (own,) = list_own_testbeds()
        remaining_processes = qemu_processes(own.name)
    proofs: list[Any] = []
    for trial in trials:
        record: Any = next(each.totals["network_event"] for each in trial.endpoints if each.name == HOST)
        proofs.append(record["proof"])
        window = EventWindow(record["begin_monotonic_ns"][0], record["end_monotonic_ns"][1])
        (outage,) = find_outages(trial.endpoints, window)
        # The guest forwards nothing while it stands still. Other gaps may be longer.
        assert outage.longest_ns >= 1e6 * (record["proof"]["migration"]["downtime_ms"] - 1)
        assert outage.recovered_ns is not None
    first, second = proofs
    assert first["qemu_process_before"] != first["qemu_process_after"] == second["qemu_process_before"]
    assert remaining_processes == {second["qemu_process_after"]}
    assert first["agent_process"] == second["agent_process"] > 0
    for proof in proofs:
        assert proof["migration"]["transferred_bytes"] > 1 << 20
    # The ports of the second migration have the names of the first, so the testbed was as before.
    assert first["learned_ports_before"]["eth0"] == second["learned_ports_before"]["eth0"] == "g1a"


@pytest.mark.lab
def test_a_migration_that_is_given_up_leaves_the_guest_where_it_was(testbed: GuestTestbed) -> None:
    (running,) = testbed.running
    ports = set(netlink.read_link_mtus(testbed.topology.switch_namespace))
    migration: GuestMigration = testbed.make_migration(levels())
    migration.prepare()
    assert migration.target is not None
    assert qemu_processes("t-migration") == {running.process.pid, migration.target.pid}
    # Too slow to end, so that it is certainly cancelled.
    running.process.monitor.execute("migrate-set-parameters", **{"max-bandwidth": 1 << 16})
    migration.start()
    pending = running.agent.send("agent.hello")
    assert not migration.has_completed()
    migration.close()
    assert running.agent.wait(pending, "agent.hello")["pid"] > 0
    assert qemu_processes("t-migration") == {running.process.pid}
    assert set(netlink.read_link_mtus(testbed.topology.switch_namespace)) == ports
    assert testbed.prove_paths(1500)["path_mtu_proved"] == 1500
