"""Real VMs for tests: domains of libvirt on one bridge, whose guests have SSH and the guest agent.

The guests boot the bench's own guest kernel with an initramfs of busybox, this machine's sshd and qemu-ga.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.libvirt_daemon import LibvirtDaemon, run_daemon
from vnetbench.lab.guest.initramfs import guest_modules
from vnetbench.lab.guest.kernel import find_or_download_kernel
from vnetbench.lab.libvirt.domains import read_definition

NAMES = ("web-01", "db-01")
BRIDGE = "br0"
_MODULES = ("virtio_pci", "virtio_console", "virtio_net", "e1000", "e1000e", "virtio_rng")
"""Few modules make a small initramfs, which boots sooner under emulation."""
_PROGRAMS = ("/usr/sbin/sshd", "/usr/sbin/qemu-ga")
_INIT = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /var/tmp /var/run /root /sbin /usr/bin /usr/sbin
/bin/busybox --install -s /bin
export PATH=/bin:/usr/sbin:/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts; mount -t devpts pts /dev/pts
mount -t tmpfs -o size=64m run /run; mkdir /run/sshd
while read -r module parameters; do insmod "$module" $parameters; done </modules/order
ip link set lo up
address=$(sed -n 's/.*vnb_address=\\([^ ]*\\).*/\\1/p' /proc/cmdline)
until [ -e /sys/class/net/eth0 ]; do sleep 0.1; done
ip address add "$address" dev eth0; ip link set eth0 up
/usr/sbin/sshd -e -f /etc/ssh/sshd_config
for port in /sys/class/virtio-ports/*; do
    if grep -q guest_agent "$port/name"; then qemu-ga -m virtio-serial -p "/dev/${port##*/}" & fi
done
echo guest is ready
while :; do sleep 3600; done
"""
_FILES = {
    "init": _INIT,
    "sbin/shutdown": "#!/bin/sh\nexec /bin/poweroff -f\n",
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nsshd:x:105:65534::/run/sshd:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n",
    "etc/ssh/sshd_config": "HostKey /etc/ssh/host_key\nAuthorizedKeysFile /etc/ssh/authorized_keys\n"
    "PidFile none\n"
    "StrictModes no\nUsePAM no\nUseDNS no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n",
}  # fmt: skip
_DOMAIN = """\
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{kernel}</kernel>
    <initrd>{initramfs}</initrd>
    <cmdline>console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr vnb_address={address}/24</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='maximum'/>
  <devices>
    <interface type='bridge'>
      <mac address='{mac}'/>
      <source bridge='{bridge}'/>
      <model type='virtio'/>
      <rom enabled='no'/>
    </interface>
    <controller type='usb' model='none'/>
    <graphics type='vnc' port='-1' passwd='secret'/>
    <video><model type='none'/></video>
    <serial type='file'><source path='{console}'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <memballoon model='none'/>
  </devices>
</domain>
"""

needs_guest_programs = pytest.mark.skipif(
    not all(map(shutil.which, ("busybox", "sshd", "qemu-ga", "qemu-system-x86_64"))),
    reason="needs busybox, sshd, qemu-ga and QEMU (tools/prepare libvirt qemu openssh-server)",
)


@dataclass(frozen=True)
class LibvirtGuests:
    """Two defined VMs and how the bench reaches them."""

    daemon: LibvirtDaemon
    namespace: str
    environment: Mapping[str, str]
    folder: Path

    @contextmanager
    def domains(self) -> Iterator[list[Any]]:
        """Connect to the domains."""
        with self.daemon.connection() as connection:
            yield [connection.lookupByName(name) for name in NAMES]


def _address(number: int) -> str:
    return f"10.77.0.{number}"


@contextmanager
def define_guests(folder: Path) -> Iterator[LibvirtGuests]:
    """Define the VMs at a daemon of their own, in a network namespace of their own."""
    namespace = f"t-libvirt-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        for command in (
            f"link add {BRIDGE} type bridge", f"address add 10.77.0.254/24 dev {BRIDGE}",
            f"link set {BRIDGE} up", "link set lo up",
        ):  # fmt: skip
            subprocess.run(["ip", "-n", namespace, *command.split()], check=True)
        environment = _make_ssh_client(folder)
        with run_daemon(folder, namespace) as daemon, daemon.connection() as connection:
            kernel, initramfs = _build_boot_images(folder)
            for number, name in enumerate(NAMES, start=1):
                domain = connection.defineXML(
                    _DOMAIN.format(
                        name=name, kernel=kernel, initramfs=initramfs, address=_address(number),
                        mac=f"52:54:00:77:00:0{number}", bridge=BRIDGE, console=folder / f"console-{name}",
                    )
                )  # fmt: skip
                # libvirt sorts the controllers when it reads a definition again, as after its restart.
                connection.defineXML(read_definition(domain, has_passwords=True))
            yield LibvirtGuests(daemon, namespace, environment, folder)
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=True)


def _make_ssh_client(folder: Path) -> dict[str, str]:
    """Make keys, and an `ssh` that uses them; return the environment of a bench that runs it."""
    for key in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text("".join(f"{name} {host_key}\n" for name in NAMES))
    (folder / "config").write_text(
        "".join(
            f"Host {name}\n HostName {_address(number)}\n HostKeyAlias {name}\n IdentityFile {folder}/key\n"
            f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known_hosts\n"
            for number, name in enumerate(NAMES, start=1)
        )
    )
    (folder / "bin").mkdir()
    script = folder / "bin/ssh"
    script.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    script.chmod(0o755)
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}", "XDG_STATE_HOME": str(folder / "state")}


def _build_boot_images(folder: Path) -> tuple[Path, Path]:
    kernel = find_or_download_kernel(guest_modules())
    modules = kernel.modules.read_in_load_order(_MODULES)
    root = folder / "root"
    for path, text in _FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o600)
    for name in ("etc/passwd", "etc/group"):
        (root / name).chmod(0o644)
    shutil.copy(folder / "host_key", root / "etc/ssh/host_key")
    shutil.copy(folder / "key.pub", root / "etc/ssh/authorized_keys")
    (root / "bin").mkdir()
    shutil.copy(shutil.which("busybox") or "", root / "bin/busybox")
    for program in _PROGRAMS:
        _copy_with_libraries(program, root)
    (root / "modules").mkdir()
    for name, code in modules.items():
        (root / f"modules/{name}.ko").write_bytes(code)
    (root / "modules/order").write_text("".join(f"/modules/{name}.ko\n" for name in modules))
    initramfs = folder / "initramfs"
    pack = "find . | busybox cpio -o -H newc"
    initramfs.write_bytes(subprocess.run(pack, shell=True, cwd=root, check=True, capture_output=True).stdout)
    return kernel.image, initramfs


def _copy_with_libraries(program: str, root: Path) -> None:
    listing = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for path in (program, *re.findall(r"(/\S+) \(0x", listing)):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
