"""The kernel that guests boot: this machine's own, or the distribution's, fetched and never installed."""

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
from vnetbench.lab.guest.modules import NEEDED, Modules

ARCHITECTURE = "x86_64"
META_PACKAGES = ("linux-image-amd64", "linux-image-generic")
"""Debian's and Ubuntu's package that needs the newest kernel; cloud flavours lack the adapters' drivers."""
UNWANTED = (
    "sound",
    "fs",
    "drivers/gpu",
    "drivers/media",
    "drivers/net/wireless",
    "drivers/scsi",
    "drivers/usb",
)
"""Modules that no guest has a device for: two thirds of a kernel's package."""
FETCH_TIMEOUT_S = 900.0
ASKING_TIMEOUT_S = 120.0
"""Of a package manager: dnf may fetch its lists first."""
_BOOT = Path("/boot")
_MODULES = Path("/lib/modules")
_REAL = re.compile(r"linux-image-(unsigned-)?(?P<release>[0-9]\S*)")


@dataclass(frozen=True)
class Kernel:
    """A kernel and its modules, unpacked."""

    release: str
    image: Path
    modules: Modules
    source: str
    """Where it is from, for people."""

    def identity(self) -> str:
        """Changes whenever the image does."""
        return f"{self.release} {hashlib.sha256(self.image.read_bytes()).hexdigest()}"


def check_architecture() -> None:
    """Raise BenchError on a machine whose distribution has no kernel for our guests."""
    if (machine := platform.machine()) != ARCHITECTURE:
        raise BenchError(
            f"the lab qemu has guests for {ARCHITECTURE} only, and this machine is {machine}",
            where="testbed.lab",
            fix=f'run it on an {ARCHITECTURE} machine, or write lab = "netns"',
        )


def found(wanted: Iterable[str] = ()) -> Kernel | None:
    """The kernel that is there already: this machine's own where it has the modules, else a fetched one."""
    for kernel in _at_hand():
        if not kernel.modules.lacking({*NEEDED, *wanted}):
            return kernel
    return None


def why_not_own(wanted: Iterable[str] = ()) -> str:
    """Why guests do not boot this machine's own kernel; empty where they do."""
    release = platform.release()
    own = _own()
    if own is None:
        return f"{_BOOT}/vmlinuz-{release} or {_MODULES}/{release} is not here, or not readable"
    lacking = own.modules.lacking([*NEEDED, *wanted])
    return f"{release} has no {', '.join(lacking)}" if lacking else ""


def prepared(wanted: Iterable[str] = ()) -> Kernel:
    """A kernel that has the modules `wanted`; the distribution's is fetched where there is none yet.

    Raises BenchError, with the fix, where none is to be had.
    """
    check_architecture()
    wanted = tuple(wanted)
    if kernel := found(wanted):
        return kernel
    fetched = _fetch()
    if lacking := fetched.modules.lacking([*NEEDED, *wanted]):
        raise BenchError(
            f"the kernel {fetched.release} has no module {', '.join(lacking)}",
            where=fetched.source,
            fix="leave out the levels that need it, or install and boot a kernel that has it",
        )
    return fetched


def _at_hand() -> Iterator[Kernel]:
    if own := _own():
        yield own
    # The newest one first, by the time that it was fetched.
    folders = (path for path in cache.folder("kernels").iterdir() if not path.name.startswith("."))
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True):
        if kernel := _in(folder):
            yield kernel


def _own() -> Kernel | None:
    release = platform.release()
    image, folder = _BOOT / f"vmlinuz-{release}", _MODULES / release
    if not (os.access(image, os.R_OK) and (folder / "kernel").is_dir()):
        return None
    return Kernel(release, image, Modules(folder), "this machine's own")


def _in(folder: Path) -> Kernel | None:
    """The kernel of unpacked packages; None where there is none."""
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
            return Kernel(modules.name, image, Modules(modules), f"package {folder.name}")
    return None


def _fetch() -> Kernel:
    if shutil.which("apt-get") and shutil.which("apt-cache") and shutil.which("dpkg-deb"):
        return _fetch_by_apt()
    if shutil.which("dnf"):
        return _fetch_by_dnf()
    raise BenchError(
        f"there is no kernel for guests: {why_not_own()}, and neither apt-get nor dnf is here to fetch one",
        fix=f"install a kernel with its modules so that {_BOOT}/vmlinuz-RELEASE can be read, and boot it",
    )


def _fetch_by_apt() -> Kernel:
    package = _real_package()
    release = _REAL.fullmatch(package)
    assert release is not None
    wanted = [package]
    # Ubuntu has the modules in packages of their own.
    for beside in (f"linux-modules-{release['release']}", f"linux-modules-extra-{release['release']}"):
        if _says("apt-cache", "show", beside):
            wanted.append(beside)
    place = cache.folder("kernels") / package
    if place.exists():
        return _fetched(place)
    with cache.making(place) as folder:
        packages = folder / "packages"
        packages.mkdir(parents=True)
        # As root apt would fetch as its own user, who may not write here.
        _run(["apt-get", "-o", "APT::Sandbox::User=root", "-qq", "download", *wanted], packages)
        for archive in sorted(packages.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(folder)], packages)
        _keep_what_boots(folder)
    return _fetched(place)


def _real_package() -> str:
    for meta in META_PACKAGES:
        for line in _says("apt-cache", "depends", "--no-recommends", "--no-suggests", meta).splitlines():
            if _REAL.fullmatch(name := line.rpartition(" ")[2]):
                return name
    raise BenchError(
        f"apt knows no kernel package ({' or '.join(META_PACKAGES)}), and this machine's own cannot be "
        f"taken: {why_not_own()}",
        fix="sudo apt-get update",
    )


def _fetch_by_dnf() -> Kernel:
    for needed in ("rpm2cpio", "cpio"):
        if shutil.which(needed) is None:
            raise BenchError(
                f"{needed} is missing, which unpacks the kernel's packages", fix=f"dnf install {needed}"
            )
    named = _says(
        "dnf", "repoquery", "--quiet", "--latest-limit=1", "--qf", "%{version}-%{release}", "kernel-core"
    )
    if not named.strip():
        raise BenchError(f"dnf knows no package kernel-core, and {why_not_own()}", fix="dnf makecache")
    release = named.split()[0]
    place = cache.folder("kernels") / f"kernel-core-{release}"
    if place.exists():
        return _fetched(place)
    with cache.making(place) as folder:
        packages = folder / "packages"
        packages.mkdir(parents=True)
        parts = [f"{part}-{release}" for part in ("kernel-core", "kernel-modules", "kernel-modules-core")]
        _run(["dnf", "download", "--quiet", "--arch", ARCHITECTURE, "--skip-unavailable", *parts], packages)
        for archive in sorted(packages.glob("*.rpm")):
            with subprocess.Popen(["rpm2cpio", str(archive)], stdout=subprocess.PIPE) as unpacking:
                _run(["cpio", "-idmu", "--quiet"], folder, stdin=unpacking.stdout)
        _keep_what_boots(folder)
    return _fetched(place)


def _keep_what_boots(folder: Path) -> None:
    """Leave away what no guest needs of a package; raises BenchError where it lacks image or modules."""
    if _in(folder) is None:
        raise BenchError(
            "the package holds no kernel with modules", where=folder.name, fix="sudo apt-get update"
        )
    shutil.rmtree(folder / "packages")
    for path in folder.glob("boot/System.map-*"):
        path.unlink()
    for unwanted in UNWANTED:
        for path in folder.glob(f"**/lib/modules/*/kernel/{unwanted}"):
            shutil.rmtree(path)


def _fetched(place: Path) -> Kernel:
    kernel = _in(place)
    assert kernel is not None
    return kernel


def _says(*command: str) -> str:
    """What a program prints; empty where it fails, or does not end."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=ASKING_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _run(command: list[str], folder: Path, **options: object) -> None:
    """Run a program that fetches or unpacks; raises BenchError with its last words."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            **options,  # type: ignore[call-overload]
        )
        said, ok = (done.stderr.strip() or done.stdout.strip()), done.returncode == 0
    except subprocess.TimeoutExpired:
        said, ok = f"no end within {FETCH_TIMEOUT_S:g} s", False
    if not ok:
        last = (said.splitlines() or ["no reason given"])[-1]
        raise BenchError(
            f"the guests' kernel could not be fetched: {last}",
            where=" ".join(command[:3]),
            fix="sudo apt-get update; without a network, install the kernel's package here and boot it",
        )
