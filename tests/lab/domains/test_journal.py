"""The journal of existing VMs: originals survive a kill, and two campaigns never change one VM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.domains import journal
from vnetbench.lab.domains.journal import DomainRecord

pytestmark = pytest.mark.pure

CONNECTION = "vsphere://bench@vc.example"
BENCH = """
import os, signal, sys
from vnetbench.lab.domains import journal
record = journal.new_record("vsphere", "{connection}", "web-01", "uuid-1", "t", "first study")
kept = journal.open_journal(record, lambda record: None)
kept.record_original("adapter", {{"model": "e1000"}})
kept.record_original("adapter", {{"model": "vmxnet3"}})
print("changed", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "vnetbench/domains"


def make_record() -> DomainRecord:
    return journal.new_record("vsphere", CONNECTION, "web-01", "uuid-1", "t", "a study")


def refuse(record: DomainRecord) -> None:
    raise AssertionError(f"nothing of {record} is left")


@contextmanager
def running_bench() -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has changed the VM and waits; it is killed in the end."""
    program = BENCH.format(connection=CONNECTION)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "changed\n"
        try:
            yield process
        finally:
            process.kill()


def leave_killed_bench() -> DomainRecord:
    with running_bench():
        pass
    (record,) = journal.list_domain_records()
    assert isinstance(record, DomainRecord)
    return record


def test_a_killed_bench_leaves_the_first_value_of_each_setting() -> None:
    record = leave_killed_bench()
    assert record.originals == {"adapter": {"model": "e1000"}}
    assert (record.domain, record.purpose, record.is_in_use) == ("web-01", "first study", False)


def test_the_next_campaign_restores_what_a_killed_one_changed() -> None:
    leave_killed_bench()
    restored: list[DomainRecord] = []
    kept = journal.open_journal(make_record(), restored.append)
    assert [each.originals for each in restored] == [{"adapter": {"model": "e1000"}}]
    assert kept.record.is_own and kept.record.originals == {}


def test_a_vm_that_cannot_be_restored_keeps_its_journal() -> None:
    record = leave_killed_bench()

    def fail(record: DomainRecord) -> None:
        raise BenchError("the hypervisor does not answer")

    with pytest.raises(BenchError, match="does not answer"):
        journal.restore_and_delete(record, fail)
    with pytest.raises(BenchError, match="does not answer"):
        journal.open_journal(make_record(), fail)
    assert journal.list_domain_records() == [record]
    assert journal.restore_and_delete(record, lambda record: None)
    assert journal.list_domain_records() == []


def test_a_vm_in_use_is_refused_and_not_restored() -> None:
    with running_bench():
        with pytest.raises(BenchError, match="another campaign uses this VM"):
            journal.open_journal(make_record(), refuse)
        (record,) = journal.list_domain_records()
        assert isinstance(record, DomainRecord) and record.is_in_use
        assert not journal.restore_and_delete(record, refuse)


def test_the_same_campaign_restores_what_its_last_testbed_could_not() -> None:
    journal.open_journal(make_record(), refuse).record_original("mtu", 1500)
    restored: list[DomainRecord] = []
    kept = journal.open_journal(make_record(), restored.append)
    assert [each.originals for each in restored] == [{"mtu": 1500}]
    kept.delete()
    assert journal.list_domain_records() == []


def test_a_damaged_journal_is_reported_and_kept(state_folder: Path) -> None:
    journal.open_journal(make_record(), refuse)
    (path,) = state_folder.glob("*.json")
    path.write_text(path.read_text()[:40])
    (error,) = journal.list_domain_records()
    assert isinstance(error, BenchError) and "damaged" in str(error)
    assert path.exists()
