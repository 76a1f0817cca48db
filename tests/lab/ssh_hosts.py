"""Hosts for tests: namespaces on a switch, each with its own sshd, users, homes and host keys.

Their files are on a file system that only the tests see, like their /run. The bench reaches them from another
namespace through an `ssh` with a configuration, a key and known hosts that only the tests use.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vnetbench.lab import netlink, registry
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetDevice, NetnsShape, NetnsTopology, Vm, make_topology
from vnetbench.study.model import ExistingEndpointSpec

NAME = f"t-hosts-{os.getpid()}"
"""The removal of a testbed ends all processes with its name, those of other runs too."""
ROOT = Path("/mnt")
USER = "measurer"
USER_ID = 4242
TIMEOUT_S = 60.0
PORTS = ("p0", "p1")
PARENTS = ("/run", "/var/tmp", "/tmp")
"""Parent folders in which an agent may be installed, besides the home folder."""


@dataclass(frozen=True)
class Host:
    """A host that runs an sshd."""

    name: str
    vm: Vm
    sshd: subprocess.Popen[bytes]

    @property
    def spec(self) -> ExistingEndpointSpec:
        """The host in the form of a study's testbed section."""
        return ExistingEndpointSpec(self.name, ssh_destination=f"root@{self.name}")

    def connections(self) -> list[int]:
        """Return the ids of sshd's children, one for each connection."""
        return [
            int(pid)
            for pid in Path(f"/proc/{self.sshd.pid}/task/{self.sshd.pid}/children").read_text().split()
        ]


class HostNetwork:
    """The hosts web-01, web-02 … and the bench's own namespace. `create_hosts` makes it."""

    def __init__(self, topology: NetnsTopology, hosts: dict[str, Host]) -> None:
        self.topology = topology
        self.hosts = hosts
        self.bench, *self._free = topology.endpoints
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
        """Add a host; `mounts` are shell commands that change its file systems."""
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
        self._add_to_client(host)
        wait_until(lambda: b"Server listening" in (folder / "log").read_bytes())
        return host

    def _add_to_client(self, host: Host) -> None:
        key = " ".join((ROOT / host.name / "host_key.pub").read_text().split()[:2])
        with (ROOT / "client/known_hosts").open("a") as known_hosts:
            known_hosts.write(f"{host.name} {key}\n")
        with (ROOT / "client/config").open("a") as config:
            config.write(
                f"Host {host.name}\n HostName {host.vm.address}\n HostKeyAlias {host.name}\n"
                f" IdentityFile {ROOT}/client/key\n IdentitiesOnly yes\n"
                f" UserKnownHostsFile {ROOT}/client/known_hosts\n"
            )

    def alias(self, name: str, *options: str) -> str:
        """Add another name for web-01 with these options and, for the rest, those of web-01."""
        defaults = (
            f"HostName {self.hosts['web-01'].vm.address}", "HostKeyAlias web-01", "IdentitiesOnly yes",
            f"IdentityFile {ROOT}/client/key", f"UserKnownHostsFile {ROOT}/client/known_hosts",
        )  # fmt: skip
        given = {option.split()[0] for option in options}
        lines = (*options, *(default for default in defaults if default.split()[0] not in given))
        with (ROOT / "client/config").open("a") as config:
            config.write(f"Host {name}\n" + "".join(f" {line}\n" for line in lines))
        return f"root@{name}"

    @contextmanager
    def bridge_ports(self, host: Host) -> Iterator[tuple[NetDevice, NetDevice]]:
        """Add two interfaces without addresses to a host, p0 and p1, with a bridge between them."""
        switch = self.topology.switch_namespace
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
    def without_known_hosts(self) -> Iterator[None]:
        """Hide all host keys from the client."""
        known_hosts, hidden = ROOT / "client/known_hosts", ROOT / "client/known_hosts.away"
        known_hosts.rename(hidden)
        try:
            yield
        finally:
            hidden.rename(known_hosts)

    def set_link(self, host: Host, state: str) -> None:
        """Set the host's link at the switch to "up" or "down"."""
        with netlink.open_in_namespace(self.topology.switch_namespace) as ipr:
            ipr.link("set", index=netlink.interface_index(ipr, host.vm.name), state=state)


@contextmanager
def create_hosts(*names: str) -> Iterator[HostNetwork]:
    """Create hosts with these names, and remove them at the end."""
    topology = make_topology(NAME, NetnsShape(pairs=3))
    registry.register_testbed(NAME, "tests", topology.describe())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "hosts", ROOT], check=True)
    # Other runs of the tests may install agents there at the same time.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "hosts", "/var/tmp"], check=True)
    hosts: dict[str, Host] = {}
    try:
        builder.build_network(topology)
        network = HostNetwork(topology, hosts)
        for name in names:
            network.add(name)
        yield network
    finally:
        for host in hosts.values():
            # By its id, since sshd overwrites the environment that holds its testbed's label.
            host.sshd.terminate()
            host.sshd.wait()
        registry.remove_testbed_and_list_remaining_groups(NAME)
        for place in ("/var/tmp", ROOT):
            subprocess.run(["umount", "--lazy", place], check=True)


def folders() -> list[Path]:
    """Return the agents' folders on all hosts without file systems of their own."""
    parents = [*map(Path, PARENTS), *ROOT.glob("*/root"), *ROOT.glob(f"*/{USER}")]
    return [path for parent in parents for path in parent.glob("vnetbench-*-????????????")]


def agents() -> dict[int, str]:
    """Return the agents on these hosts by process id, with the folders that they run in."""
    ours = {path.stat().st_ino for path in netlink.NETNS_DIR.glob(f"{registry.NAMESPACE_PREFIX}{NAME}.*")}
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program, namespace = (process / "exe").readlink(), (process / "ns/net").stat().st_ino
        except OSError:
            continue  # The process has ended.
        if namespace in ours and program.parent.name.startswith("vnetbench-"):
            found[int(process.name)] = str(program.parent)
    return found


def connections() -> list[str]:
    """Return the owners of the connections that have a folder on this machine."""
    owners = []
    for path in Path(tempfile.gettempdir()).glob("vnetbench-ssh-*/owner"):
        with suppress(FileNotFoundError):  # Another bench has just closed its connection.
            owners.append(path.read_text())
    return owners


def _make_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)


def kill(*pids: int) -> None:
    """Kill processes."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
