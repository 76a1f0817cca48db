"""Hosts to measure between: namespaces on a switch, each with an sshd, users, homes and host keys of its own.

Their files stand on a file system that only the tests see, as their /run does. The bench reaches them from a
namespace beside them, by an `ssh` that knows a configuration, a key and known hosts of the tests alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vnetbench.lab import netlink, registry
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetDevice, NetnsShape, NetnsTopology, Vm, make_topology
from vnetbench.study.model import HostSpec

NAME = "t-hosts"
ROOT = Path("/mnt")
USER = "measurer"
USER_ID = 4242
PATIENCE_S = 60.0
PORTS = ("p0", "p1")
PARENTS = ("/run", "/var/tmp", "/tmp")
"""Where an agent may be put, beside the home."""


@dataclass(frozen=True)
class Host:
    """One that runs an sshd."""

    name: str
    vm: Vm
    sshd: subprocess.Popen[bytes]

    @property
    def asked(self) -> HostSpec:
        """As a study names it."""
        return HostSpec(self.name, ssh=f"root@{self.name}")

    def connections(self) -> list[int]:
        """Ids of sshd's children, one for each connection."""
        return [
            int(pid)
            for pid in Path(f"/proc/{self.sshd.pid}/task/{self.sshd.pid}/children").read_text().split()
        ]


class Ground:
    """The hosts web-01, web-02 … and the bench's own namespace. Made by `raised`."""

    def __init__(self, testbed: NetnsTopology, hosts: dict[str, Host]) -> None:
        self.testbed = testbed
        self.hosts = hosts
        self.bench, *self._free = testbed.endpoints
        for folder in ("client", "bin", "state"):
            (ROOT / folder).mkdir()
        for key in ("key", "other_key"):
            _make_key(ROOT / "client" / key)
        script = ROOT / "bin/ssh"
        client = f"ip netns exec {self.bench.namespace} {shutil.which('ssh')} -F {ROOT}/client/config"
        script.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
        script.chmod(0o755)
        self.environment: Mapping[str, str] = {
            "PATH": f"{ROOT}/bin:{os.environ['PATH']}", "XDG_STATE_HOME": f"{ROOT}/state",
        }  # fmt: skip

    def add(self, name: str, mounts: str = "true") -> Host:
        """A further host; `mounts` are commands of the shell that change what it has of file systems."""
        vm = self._free.pop(0)
        folder = ROOT / name
        folder.mkdir()
        _make_key(folder / "host_key")
        for user, number in (("root", 0), (USER, USER_ID)):
            (folder / user).mkdir()
            os.chown(folder / user, number, number)
        (folder / "passwd").write_text(
            f"root:x:0:0::{folder}/root:/bin/bash\n{USER}:x:{USER_ID}:{USER_ID}::{folder}/{USER}:/bin/sh\n"
            "sshd:x:105:65534::/run/sshd:/usr/sbin/nologin\n"
        )
        (folder / "shadow").write_text(
            "".join(f"{user}:*:19000:0:99999:7:::\n" for user in ("root", USER, "sshd"))
        )
        (folder / "config").write_text(
            f"HostKey {folder}/host_key\nAuthorizedKeysFile {ROOT}/client/key.pub\nPidFile none\n"
            "StrictModes no\nUsePAM no\nUseDNS no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        )
        begin = (
            f"mount --bind {folder}/passwd /etc/passwd && mount --bind {folder}/shadow /etc/shadow "
            f"&& {mounts} && mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -f {folder}/config"
        )
        sshd = subprocess.Popen(
            ["ip", "netns", "exec", vm.namespace, "sh", "-c", begin],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(folder / "log").open("wb"),
        )  # fmt: skip
        host = self.hosts[name] = Host(name, vm, sshd)
        self._introduce(host)
        await_(lambda: b"Server listening" in (folder / "log").read_bytes())
        return host

    def _introduce(self, host: Host) -> None:
        key = " ".join((ROOT / host.name / "host_key.pub").read_text().split()[:2])
        with (ROOT / "client/known_hosts").open("a") as known:
            known.write(f"{host.name} {key}\n")
        with (ROOT / "client/config").open("a") as config:
            config.write(
                f"Host {host.name}\n HostName {host.vm.address}\n HostKeyAlias {host.name}\n"
                f" IdentityFile {ROOT}/client/key\n IdentitiesOnly yes\n"
                f" UserKnownHostsFile {ROOT}/client/known_hosts\n"
            )

    def alias(self, name: str, *options: str) -> str:
        """Another name for web-01, reached as the options say; what they leave out is as it is of web-01."""
        others = (
            f"HostName {self.hosts['web-01'].vm.address}", "HostKeyAlias web-01", "IdentitiesOnly yes",
            f"IdentityFile {ROOT}/client/key", f"UserKnownHostsFile {ROOT}/client/known_hosts",
        )  # fmt: skip
        said = {option.split()[0] for option in options}
        lines = (*options, *(other for other in others if other.split()[0] not in said))
        with (ROOT / "client/config").open("a") as config:
            config.write(f"Host {name}\n" + "".join(f" {line}\n" for line in lines))
        return f"root@{name}"

    @contextmanager
    def device(self, host: Host) -> Iterator[tuple[NetDevice, NetDevice]]:
        """Two more interfaces of a host, p0 and p1, which have no address, with a bridge between them."""
        switch = self.testbed.switch_namespace
        with netlink.open_in_namespace(switch) as ipr:
            bridge = builder.add_bridges(ipr, ["device"])["device"]
            for name in PORTS:
                there = {"ifname": name, "net_ns_fd": host.vm.namespace}
                ipr.link("add", ifname=f"to-{name}", kind="veth", peer=there)
                builder.attach_port(ipr, f"to-{name}", bridge)
        with netlink.open_in_namespace(host.vm.namespace) as ipr:
            for name in PORTS:
                ipr.link("set", index=netlink.interface_index(ipr, name), state="up")
        try:
            first, second = (NetDevice(name, host.vm.namespace, name) for name in PORTS)
            yield first, second
        finally:
            with netlink.open_in_namespace(switch) as ipr:
                for name in (*(f"to-{name}" for name in PORTS), "device"):
                    ipr.link("del", index=netlink.interface_index(ipr, name))

    @contextmanager
    def strangers(self) -> Iterator[None]:
        """Meanwhile the client knows no host's key."""
        known, away = ROOT / "client/known_hosts", ROOT / "client/known_hosts.away"
        known.rename(away)
        try:
            yield
        finally:
            away.rename(known)

    def set_link(self, host: Host, state: str) -> None:
        """Pull its cable at the switch, or put it back: "down", "up"."""
        with netlink.open_in_namespace(self.testbed.switch_namespace) as ipr:
            ipr.link("set", index=netlink.interface_index(ipr, host.vm.name), state=state)


@contextmanager
def raised(*names: str) -> Iterator[Ground]:
    """Hosts of these names; ended and removed at the end."""
    testbed = make_topology(NAME, NetnsShape(pairs=3))
    registry.register(NAME, "tests", testbed.as_facts())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "ground", ROOT], check=True)
    hosts: dict[str, Host] = {}
    try:
        builder.build_network(testbed)
        ground = Ground(testbed, hosts)
        for name in names:
            ground.add(name)
        yield ground
    finally:
        for host in hosts.values():
            # By its id: it writes its title where the label of its testbed would be.
            host.sshd.terminate()
            host.sshd.wait()
        registry.remove_testbed(NAME)
        subprocess.run(["umount", "--lazy", ROOT], check=True)


def folders() -> list[Path]:
    """Those of agents, on all hosts that have no file systems of their own."""
    places = [*map(Path, PARENTS), *ROOT.glob("*/root"), *ROOT.glob(f"*/{USER}")]
    return [path for place in places for path in place.glob("vnetbench-*-????????????")]


def agents() -> dict[int, str]:
    """Process ids of the agents on these hosts, and the folders that they run in."""
    ours = {path.stat().st_ino for path in netlink.NETNS_DIR.glob(f"{registry.NAMESPACE_PREFIX}{NAME}.*")}
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program, namespace = (process / "exe").readlink(), (process / "ns/net").stat().st_ino
        except OSError:
            continue  # gone meanwhile
        if namespace in ours and program.parent.name.startswith("vnetbench-"):
            found[int(process.name)] = str(program.parent)
    return found


def connections() -> list[str]:
    """The owners of the connections that have a folder on this machine."""
    return [path.read_text() for path in Path(tempfile.gettempdir()).glob("vnetbench-ssh-*/owner")]


def _make_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def await_(done: Callable[[], object]) -> None:
    """Until it holds."""
    until = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.02)


def kill(*pids: int) -> None:
    """End processes without a warning."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
