"""Finds the kernel that guests boot: this machine's own, or the distribution's without installing it."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.guest import cache
from vnetbench.lab.guest.modules import REQUIRED_MODULES, KernelModules

GUEST_ARCHITECTURE = "x86_64"
KERNEL_META_PACKAGES = ("linux-image-amd64", "linux-image-generic")
"""Debian's and Ubuntu's packages for the newest kernel. Cloud flavours lack the adapters' drivers."""
EXCLUDED_MODULE_FOLDERS = (
    "sound",
    "fs",
    "drivers/gpu",
    "drivers/media",
    "drivers/net/wireless",
    "drivers/scsi",
    "drivers/usb",
)
"""Module folders without a device in any guest: two thirds of a kernel package."""
FETCH_TIMEOUT_S = 900.0
QUERY_TIMEOUT_S = 120.0
"""Time limit of a package manager's query: dnf may download its lists first."""
_BOOT_FOLDER = Path("/boot")
_MODULES_FOLDER = Path("/lib/modules")
_KERNEL_PACKAGE = re.compile(r"linux-image-(unsigned-)?(?P<release>[0-9]\S*)")


@dataclass(frozen=True)
class Kernel:
    """A kernel with its modules, unpacked."""

    release: str
    image: Path
    modules: KernelModules
    source: str
    """Its origin, as a phrase for people."""

    def identity(self) -> str:
        """Return a text that changes whenever the image does."""
        return f"{self.release} {hashlib.sha256(self.image.read_bytes()).hexdigest()}"


def check_architecture() -> None:
    """Raise BenchError on a machine of another architecture than the guests'."""
    if (machine := platform.machine()) != GUEST_ARCHITECTURE:
        raise BenchError(
            f"the lab qemu supports {GUEST_ARCHITECTURE} only, but this machine is {machine}",
            where="testbed.lab",
            fix=f'run the study on an {GUEST_ARCHITECTURE} machine, or write lab = "netns"',
        )


def find_kernel(modules: Iterable[str] = ()) -> Kernel | None:
    """Return a kernel with these modules, this machine's own or a downloaded one; None without one."""
    for kernel in _available_kernels():
        if not kernel.modules.list_missing({*REQUIRED_MODULES, *modules}):
            return kernel
    return None


def own_kernel_problem(modules: Iterable[str] = ()) -> str:
    """Return why guests do not boot this machine's own kernel; empty if they do."""
    release = platform.release()
    own = _own_kernel()
    if own is None:
        return f"{_BOOT_FOLDER}/vmlinuz-{release} or {_MODULES_FOLDER}/{release} is missing or not readable"
    missing = own.modules.list_missing([*REQUIRED_MODULES, *modules])
    return f"{release} lacks {', '.join(missing)}" if missing else ""


def find_or_download_kernel(modules: Iterable[str] = ()) -> Kernel:
    """Return a kernel with these modules, and download the distribution's if needed.

    Raises:
        BenchError: if no kernel has the modules or none can be downloaded.
    """
    check_architecture()
    modules = tuple(modules)
    if kernel := find_kernel(modules):
        return kernel
    fetched = _fetch_kernel()
    if missing := fetched.modules.list_missing([*REQUIRED_MODULES, *modules]):
        raise BenchError(
            f"the kernel {fetched.release} has no module {', '.join(missing)}",
            where=fetched.source,
            fix="leave out the levels that need the module, or install and boot a kernel with the module",
        )
    return fetched


def _available_kernels() -> Iterator[Kernel]:
    if own := _own_kernel():
        yield own
    # The most recently downloaded kernel comes first.
    folders = (path for path in cache.cache_subfolder("kernels").iterdir() if not path.name.startswith("."))
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True):
        if kernel := _find_unpacked_kernel(folder):
            yield kernel


def _own_kernel() -> Kernel | None:
    release = platform.release()
    image, folder = _BOOT_FOLDER / f"vmlinuz-{release}", _MODULES_FOLDER / release
    if not (os.access(image, os.R_OK) and (folder / "kernel").is_dir()):
        return None
    return Kernel(release, image, KernelModules(folder), "this machine's own kernel")


def _find_unpacked_kernel(folder: Path) -> Kernel | None:
    """Return the kernel of unpacked packages; None if there is none."""
    for modules in sorted((*folder.glob("lib/modules/*"), *folder.glob("usr/lib/modules/*"))):
        image = next(
            (
                path
                for path in (folder / "boot" / f"vmlinuz-{modules.name}", modules / "vmlinuz")
                if path.is_file()
            ),
            None,
        )
        if image is not None and (modules / "kernel").is_dir():
            return Kernel(modules.name, image, KernelModules(modules), f"package {folder.name}")
    return None


def _fetch_kernel() -> Kernel:
    if shutil.which("apt-get") and shutil.which("apt-cache") and shutil.which("dpkg-deb"):
        return _fetch_by_apt()
    if shutil.which("dnf"):
        return _fetch_by_dnf()
    raise BenchError(
        f"guests have no kernel, because {own_kernel_problem()}, and neither apt-get nor dnf can download a "
        "kernel",
        fix=f"install and boot a kernel with its modules, and make {_BOOT_FOLDER}/vmlinuz-RELEASE readable",
    )


def _fetch_by_apt() -> Kernel:
    package = _find_apt_package()
    release = _KERNEL_PACKAGE.fullmatch(package)
    assert release is not None
    package_names = [package]
    # Ubuntu ships the modules in separate packages.
    for name in (f"linux-modules-{release['release']}", f"linux-modules-extra-{release['release']}"):
        if _command_output_or_empty("apt-cache", "show", name):
            package_names.append(name)
    target = cache.cache_subfolder("kernels") / package
    if target.exists():
        return _unpacked_kernel(target)
    with cache.create_atomically(target) as folder:
        packages = folder / "packages"
        packages.mkdir(parents=True)
        # As root, apt would download as its own user, which cannot write here.
        _run_fetch_step(
            ["apt-get", "-o", "APT::Sandbox::User=root", "-qq", "download", *package_names], packages
        )
        for archive in sorted(packages.glob("*.deb")):
            _run_fetch_step(["dpkg-deb", "-x", str(archive), str(folder)], packages)
        _drop_unneeded_files(folder)
    return _unpacked_kernel(target)


def _find_apt_package() -> str:
    for meta in KERNEL_META_PACKAGES:
        query = ("apt-cache", "depends", "--no-recommends", "--no-suggests", meta)
        for line in _command_output_or_empty(*query).splitlines():
            if _KERNEL_PACKAGE.fullmatch(name := line.rpartition(" ")[2]):
                return name
    raise BenchError(
        f"apt knows no kernel package ({' or '.join(KERNEL_META_PACKAGES)}), and guests cannot use "
        f"this machine's kernel: {own_kernel_problem()}",
        fix="run sudo apt-get update",
    )


def _fetch_by_dnf() -> Kernel:
    for program in ("rpm2cpio", "cpio"):
        if shutil.which(program) is None:
            raise BenchError(
                f"the program {program}, which unpacks the kernel's packages, is missing",
                fix=f"dnf install {program}",
            )
    versions = _command_output_or_empty(
        "dnf", "repoquery", "--quiet", "--latest-limit=1", "--qf", "%{version}-%{release}", "kernel-core"
    )
    if not versions.strip():
        raise BenchError(f"dnf knows no package kernel-core, and {own_kernel_problem()}", fix="dnf makecache")
    release = versions.split()[0]
    target = cache.cache_subfolder("kernels") / f"kernel-core-{release}"
    if target.exists():
        return _unpacked_kernel(target)
    with cache.create_atomically(target) as folder:
        packages = folder / "packages"
        packages.mkdir(parents=True)
        parts = [f"{part}-{release}" for part in ("kernel-core", "kernel-modules", "kernel-modules-core")]
        download = ["dnf", "download", "--quiet", "--arch", GUEST_ARCHITECTURE, "--skip-unavailable", *parts]
        _run_fetch_step(download, packages)
        for archive in sorted(packages.glob("*.rpm")):
            with subprocess.Popen(["rpm2cpio", str(archive)], stdout=subprocess.PIPE) as unpacking:
                _run_fetch_step(["cpio", "-idmu", "--quiet"], folder, stdin=unpacking.stdout)
        _drop_unneeded_files(folder)
    return _unpacked_kernel(target)


def _drop_unneeded_files(folder: Path) -> None:
    """Delete what no guest needs of a package; raises BenchError if it lacks the image or the modules."""
    if _find_unpacked_kernel(folder) is None:
        raise BenchError(
            "the package contains no kernel with modules", where=folder.name, fix="run sudo apt-get update"
        )
    shutil.rmtree(folder / "packages")
    for path in folder.glob("boot/System.map-*"):
        path.unlink()
    for unwanted in EXCLUDED_MODULE_FOLDERS:
        for path in folder.glob(f"**/lib/modules/*/kernel/{unwanted}"):
            shutil.rmtree(path)


def _unpacked_kernel(folder: Path) -> Kernel:
    kernel = _find_unpacked_kernel(folder)
    assert kernel is not None
    return kernel


def _command_output_or_empty(*command: str) -> str:
    """Return a program's output; empty if it fails or exceeds the time limit."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=QUERY_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _run_fetch_step(command: list[str], folder: Path, **options: object) -> None:
    """Run a program that downloads or unpacks; raises BenchError with its last line of output."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            **options,  # type: ignore[call-overload]
        )
        output, has_succeeded = (done.stderr.strip() or done.stdout.strip()), done.returncode == 0
    except subprocess.TimeoutExpired:
        output, has_succeeded = f"the download did not end within {FETCH_TIMEOUT_S:g} s", False
    if not has_succeeded:
        last = (output.splitlines() or ["the program gave no reason"])[-1]
        raise BenchError(
            f"cannot download the guests' kernel: {last}",
            where=" ".join(command[:3]),
            fix="run sudo apt-get update. Without a network, install and boot the kernel's package on this "
            "machine",
        )
