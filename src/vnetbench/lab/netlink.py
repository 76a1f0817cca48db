"""The one place that talks to the kernel's netlink: interfaces, addresses, queueing disciplines."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import IPRoute, netns
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from vnetbench.errors import BenchError

T = TypeVar("T")
NETNS_DIR = Path("/run/netns")
_CLONE_NEWNET = 0x40000000  # <linux/sched.h>; os.unshare comes with Python 3.12
_NETDEV_CMD_NAPI_GET = 11  # <linux/netdev.h>
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def in_namespace(name: str) -> Iterator[IPRoute]:
    """A netlink socket in the namespace `name`; the kernel's refusals become BenchErrors."""
    # Not IPRoute(netns=name): that forks, which threads don't bear, and makes anew a namespace that is gone.
    with explained(name), IPRoute(fileno=do_inside(name, _netlink_socket)) as ipr:
        yield ipr


def _netlink_socket() -> int:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, socket.NETLINK_ROUTE).detach()


@contextmanager
def explained(where: str) -> Iterator[None]:
    """The kernel's refusals in words."""
    try:
        yield
    except NetlinkError as error:
        raise BenchError(
            f"the kernel refused: {error.args[1] if len(error.args) > 1 else error}",
            where=where,
            fix=FIXES.get(error.code, "vnetbench doctor says what this machine allows"),
        ) from error
    except FileNotFoundError as error:
        raise BenchError(f"the namespace {where} is gone", where=where, fix="vnetbench lab clean") from error


FIXES = {
    errno.EPERM: "run as root, or allow unprivileged user namespaces (vnetbench doctor says how)",
    errno.EOPNOTSUPP: "this kernel lacks that feature; vnetbench doctor lists what is missing",
    errno.ENOENT: "this kernel lacks that feature; vnetbench doctor lists what is missing",
    errno.EEXIST: "another testbed has this name: vnetbench lab ls, vnetbench lab clean",
}


def route_to(address: str, source: str | None) -> tuple[str, str]:
    """The interface by which this machine's packets to an address leave, and the address that they come from.

    Raises BenchError where there is no route.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    by_hand = f"ip route get {address}" + (f" from {source}" if source else "")
    try:
        with IPRoute() as ipr:
            (route,) = ipr.route("get", dst=address, family=family, **({"src": source} if source else {}))
            (link,) = ipr.get_links(route.get_attr("RTA_OIF"))
            return str(link.get_attr("IFLA_IFNAME")), source or str(route.get_attr("RTA_PREFSRC"))
    except NetlinkError as error:
        raise BenchError(
            f"this machine has no route to it: {os.strerror(error.code)}",
            where=address,
            fix=f"{by_hand} shows what is missing",
        ) from error


def addresses_of(interface: str, family: int) -> list[str]:
    """The addresses of one of this machine's interfaces, without those that hold on its link only."""
    with IPRoute() as ipr:
        found = ipr.link_lookup(ifname=interface)
        # The scopes of <linux/rtnetlink.h>: RT_SCOPE_LINK is 253; loopback's own is RT_SCOPE_HOST, 254.
        return [
            str(each.get_attr("IFA_LOCAL") or each.get_attr("IFA_ADDRESS"))
            for index in found
            for each in ipr.get_addr(index=index, family=family)
            if each["scope"] != 253
        ]


def make_namespace(name: str) -> None:
    """A new, empty namespace."""
    try:
        _in_thread(lambda: _unshare_as(name))
    except FileExistsError:
        raise BenchError(
            "this namespace exists already",
            where=name,
            fix="vnetbench lab clean removes what a dead bench left",
        ) from None
    except OSError as error:
        raise BenchError(
            f"no namespace can be made here ({error.strerror or error})", where=name, fix=FIXES[errno.EPERM]
        ) from error


def remove_namespace(name: str) -> None:
    """Remove a namespace and with it every interface in it; one that is gone already is no fault."""
    try:
        netns.remove(name)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.EINVAL:  # a name whose mount is gone: only the file is left
            raise
        (NETNS_DIR / name).unlink(missing_ok=True)


def namespaces() -> list[str]:
    """The names of all namespaces of this machine."""
    return sorted(netns.listnetns())


def do_inside(name: str, work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own that has entered the namespace."""

    def enter() -> T:
        netns.setns(name, flags=0)
        return work()

    return _in_thread(enter)


def do_apart(work: Callable[[], T]) -> T:
    """Run `work` in a namespace that nobody else has, and that is gone with it."""

    def enter() -> T:
        _unshare()
        return work()

    return _in_thread(enter)


def _unshare_as(name: str) -> None:
    """Give this thread a namespace of its own, and that namespace a name."""
    _unshare()
    netns.attach(name, "thread-self")


def _unshare() -> None:
    if _LIBC.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that is not used again: a namespace is a thread's own."""
    outcome: list[T] = []
    faults: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=run, name="namespace")
    try:
        thread.start()
        thread.join()
    finally:
        # A signal's exception must not leave it building behind the back of who cleans up.
        if thread.ident is not None:
            thread.join()
    if faults:
        raise faults[0]
    return outcome[0]


def index_of(ipr: IPRoute, interface: str) -> int:
    """The interface's index; raises BenchError when it is not there."""
    found = ipr.link_lookup(ifname=interface)
    if not found:
        raise BenchError(
            "the interface is not there", where=interface, fix="vnetbench lab down, then up again"
        )
    return int(found[0])


def mtu_of(namespace: str, interface: str) -> int:
    """The interface's MTU in bytes."""
    return int(_link(namespace, interface).get_attr("IFLA_MTU"))


def mac_of(namespace: str, interface: str) -> str:
    """The interface's MAC address."""
    return str(_link(namespace, interface).get_attr("IFLA_ADDRESS"))


def _link(namespace: str, interface: str) -> Any:
    with in_namespace(namespace) as ipr:
        (link,) = ipr.get_links(index_of(ipr, interface))
        return link


def attribute(message: Any, *path: str) -> Any:
    """A nested netlink attribute, or None."""
    for name in path:
        if message is None:
            return None
        message = message.get_attr(name)
    return message


class _Napi(genlmsg):  # type: ignore[misc]
    """What the kernel tells of a NAPI instance (include/uapi/linux/netdev.h, NETDEV_A_NAPI_*)."""

    nla_map = (
        ("NETDEV_A_NAPI_UNSPEC", "none"),
        ("NETDEV_A_NAPI_IFINDEX", "uint32"),
        ("NETDEV_A_NAPI_ID", "uint32"),
        ("NETDEV_A_NAPI_IRQ", "uint32"),
        ("NETDEV_A_NAPI_PID", "uint32"),
    )


def napi_threads(namespace: str, interface: str) -> list[int]:
    """The ids of the kernel's threads that take in what comes to an interface; none where it has no such
    threads, or the kernel does not tell (Linux 6.9 does)."""
    with in_namespace(namespace) as ipr:
        index = index_of(ipr, interface)

    def ask() -> list[int]:
        asked = _Napi()
        asked["cmd"], asked["version"] = _NETDEV_CMD_NAPI_GET, 1
        with GenericNetlinkSocket() as netdev:
            netdev.bind("netdev", _Napi)
            told = netdev.nlm_request(asked, msg_type=netdev.prid, msg_flags=NLM_F_REQUEST | NLM_F_DUMP)
            own = [each for each in told if each.get_attr("NETDEV_A_NAPI_IFINDEX") == index]
        return [thread for each in own if (thread := each.get_attr("NETDEV_A_NAPI_PID"))]

    try:
        return do_inside(namespace, ask)
    except NetlinkError:
        return []
