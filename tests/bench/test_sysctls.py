"""Kernel settings that corpus runs change are restored."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from bench.corpus.disturbance import DisturbanceTarget
from bench.corpus.disturbances import sysctls

pytestmark = pytest.mark.pure


def test_machine_settings_of_a_killed_process_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, backup_file = tmp_path / "sys", tmp_path / "backup.json"
    backlog, boot_id = machine / "net/core/netdev_max_backlog", machine / "kernel/random/boot_id"
    for path, value in ((backlog, "1000\n"), (boot_id, "first\n")):
        path.parent.mkdir(parents=True)
        path.write_text(value)
    monkeypatch.setattr(sysctls, "_SYSCTL_FOLDER", machine)
    monkeypatch.setattr(sysctls, "BACKUP_FILE", backup_file)
    disturb = sysctls.machine_sysctls({"net/core/netdev_max_backlog": "1"})
    assert sysctls.restore_leftover_sysctls() == {}

    with disturb(cast(DisturbanceTarget, None)):
        backup = backup_file.read_text()
        assert backlog.read_text() == "1"
    assert backlog.read_text() == "1000" and not backup_file.exists()

    backlog.write_text("1")
    backup_file.write_text(backup)
    assert sysctls.restore_leftover_sysctls() == {"net/core/netdev_max_backlog": "1000"}
    assert backlog.read_text() == "1000" and not backup_file.exists()

    # A reboot has reset all settings.
    backlog.write_text("2000")
    boot_id.write_text("second")
    backup_file.write_text(backup)
    assert sysctls.restore_leftover_sysctls() == {} and backlog.read_text() == "2000"
