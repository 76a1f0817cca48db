"""Tests of the guests' kernel: this machine's own kernel, else the distribution's, downloaded only."""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lab.guest.test_modules import build_module
from vnetbench.errors import BenchError
from vnetbench.lab.guest import kernel, qemu

RELEASE = "6.1.0-99-amd64"
NEEDED = ("virtio_pci", "virtio_console")


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine with an empty cache, no kernel of its own, and no package manager."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel, "_BOOT_FOLDER", tmp_path / "boot")
    monkeypatch.setattr(kernel, "_MODULES_FOLDER", tmp_path / "modules")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")


def install_program(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)


def install_fake_apt(folder: Path, modules: tuple[str, ...], download: str = 'touch "$6.deb"') -> None:
    """Simulate a distribution whose kernel package has these modules."""
    install_program(
        folder, "apt-cache",
        f'case "$*" in *"show "*) exit 100;; *generic) exit 100;; esac; echo "linux-image-amd64"; '
        f'echo "  Depends: linux-image-{RELEASE}"',
    )  # fmt: skip
    install_program(folder, "apt-get", download)
    package = folder / "package"
    (package / "boot").mkdir(parents=True)
    (package / "boot" / f"vmlinuz-{RELEASE}").write_text("kernel")
    (package / "boot" / f"System.map-{RELEASE}").write_text("much")
    drivers = package / "lib/modules" / RELEASE / "kernel/drivers"
    drivers.mkdir(parents=True)
    for name in modules:
        (drivers / f"{name}.ko").write_bytes(build_module())
    install_program(folder, "dpkg-deb", f'cp -r {package}/. "$3"')


def test_the_package_behind_the_meta_package_is_downloaded_and_unpacked_once(tmp_path: Path) -> None:
    install_fake_apt(tmp_path, (*NEEDED, "vmxnet3"))
    fetched = kernel.find_or_download_kernel(["vmxnet3"])
    assert (fetched.release, fetched.source) == (RELEASE, f"package linux-image-{RELEASE}")
    assert fetched.image.read_text() == "kernel"
    assert not list(fetched.image.parent.glob("System.map*"))
    (tmp_path / "bin/apt-get").unlink()
    assert kernel.find_or_download_kernel(["vmxnet3"]) == fetched


def test_several_benches_download_at_once(tmp_path: Path) -> None:
    install_fake_apt(tmp_path, NEEDED)
    with ThreadPoolExecutor(4) as pool:
        kernels = list(pool.map(lambda _: kernel.find_or_download_kernel(), range(4)))
    assert len(set(kernels)) == 1


def test_the_own_kernel_is_preferred_if_it_has_the_modules(tmp_path: Path) -> None:
    install_fake_apt(tmp_path, (*NEEDED, "vmxnet3"))
    release = platform.release()
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / f"vmlinuz-{release}").write_text("own")
    drivers = tmp_path / "modules" / release / "kernel"
    drivers.mkdir(parents=True)
    for name in NEEDED:
        (drivers / f"{name}.ko").write_bytes(build_module())
    assert kernel.find_or_download_kernel().source == "this machine's own kernel"
    assert kernel.find_or_download_kernel(["vmxnet3"]).release == RELEASE
    assert kernel.own_kernel_problem(["vmxnet3"]) == f"{release} lacks vmxnet3"


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    install_fake_apt(tmp_path, NEEDED)
    with pytest.raises(BenchError, match=f"{RELEASE} has no module igb") as refused:
        kernel.find_or_download_kernel(["igb"])
    assert "leave out" in str(refused.value.fix)
    # The newest package is cached, so it is not downloaded again.
    (tmp_path / "bin/apt-get").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(BenchError, match=f"{RELEASE} has no module igb"):
        kernel.find_or_download_kernel(["igb"])


def test_a_failed_download_is_explained_and_leaves_nothing(tmp_path: Path) -> None:
    install_fake_apt(tmp_path, NEEDED, download="echo 'E: 404 Not Found' >&2; exit 100")
    with pytest.raises(BenchError, match="E: 404 Not Found") as refused:
        kernel.find_or_download_kernel()
    assert "apt-get update" in str(refused.value.fix)
    assert list((tmp_path / "cache/vnetbench/guests/kernels").iterdir()) == []


def test_a_missing_package_or_package_manager_is_reported_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="neither apt-get nor dnf"):
        kernel.find_or_download_kernel()
    install_fake_apt(tmp_path, NEEDED)
    install_program(tmp_path, "apt-cache", "exit 100")
    with pytest.raises(BenchError, match="apt knows no kernel package") as refused:
        kernel.find_or_download_kernel()
    assert refused.value.fix == "run sudo apt-get update"


def test_another_architecture_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(BenchError, match="this machine is aarch64") as refused:
        kernel.find_or_download_kernel()
    assert 'lab = "netns"' in str(refused.value.fix)


def test_a_program_that_is_not_a_qemu_is_named_with_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "bin" / qemu.QEMU_PROGRAM
    path.write_bytes(b"\x7fELF of another machine")
    path.chmod(0o755)
    with pytest.raises(BenchError, match="this program is not a QEMU that runs on this machine") as refused:
        qemu.find_qemu()
    assert (refused.value.where, refused.value.fix) == (str(path), qemu.INSTALL_COMMAND)


def test_a_query_of_the_package_manager_has_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_fake_apt(tmp_path, NEEDED)
    install_program(tmp_path, "apt-cache", "exec sleep 600")
    monkeypatch.setattr(kernel, "QUERY_TIMEOUT_S", 0.05)
    with pytest.raises(BenchError, match="apt knows no kernel package"):
        kernel.find_or_download_kernel()
