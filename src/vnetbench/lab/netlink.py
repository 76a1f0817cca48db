"""The only code of the bench that uses the kernel's netlink: interfaces, addresses, queueing disciplines."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pyroute2 import IPRoute, netns
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from vnetbench.errors import BenchError

T = TypeVar("T")
NETNS_DIR = Path("/run/netns")
_CLONE_NEWNET = 0x40000000  # <linux/sched.h>; os.unshare comes with Python 3.12
_NETDEV_CMD_NAPI_GET = 11  # <linux/netdev.h>
_SIOCGIFMTU = 0x8921  # <linux/sockios.h>
_IFREQ = struct.Struct("16si20x")
"""`struct ifreq` of <linux/if.h> with `ifr_mtu`, as long as on 64-bit machines."""
_C_LIBRARY = ctypes.CDLL(None, use_errno=True)


@contextmanager
def open_in_namespace(name: str) -> Iterator[IPRoute]:
    """Open a netlink socket in the namespace `name`; errors of the kernel become BenchErrors."""
    # Not IPRoute(netns=name): it forks, which is unsafe with threads, and recreates a removed namespace.
    with translate_netlink_errors(name), IPRoute(fileno=run_in_namespace(name, _open_netlink_socket)) as ipr:
        yield ipr


def _open_netlink_socket() -> int:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, socket.NETLINK_ROUTE).detach()


@contextmanager
def translate_netlink_errors(where: str) -> Iterator[None]:
    """Turn errors of the kernel, and missing namespaces, files and programs, into BenchErrors."""
    try:
        yield
    except NetlinkError as error:
        raise BenchError(
            f"the kernel refused: {error.args[1] if len(error.args) > 1 else error}",
            where=where,
            fix=FIXES_BY_ERRNO.get(error.code, "run vnetbench doctor to see what this machine allows"),
        ) from error
    except FileNotFoundError as error:
        if error.filename is None:
            raise
        path = Path(os.fsdecode(error.filename))
        if path.parent.resolve() == NETNS_DIR.resolve():
            raise BenchError(
                f"the namespace {path.name} does not exist", where=path.name, fix="run vnetbench lab clean"
            ) from error
        raise BenchError(
            f"{path} is missing",
            where=where,
            fix="install it; vnetbench doctor shows what this machine lacks",
        ) from error


FIXES_BY_ERRNO = {
    errno.EPERM: "run as root, or allow unprivileged user namespaces (vnetbench doctor shows how)",
    errno.EOPNOTSUPP: "run vnetbench doctor to see which features this kernel lacks",
    errno.ENOENT: "run vnetbench doctor to see which features this kernel lacks",
    errno.EEXIST: "choose another name, because a testbed has this name; or run vnetbench lab clean",
}


class InterfaceAddress(NamedTuple):
    """An interface and one of its addresses."""

    interface: str
    address: str


def find_route(destination_address: str, source_address: str | None) -> InterfaceAddress:
    """Return the interface and source address of this machine's packets to an address.

    Raises:
        BenchError: if there is no route.
    """
    family = socket.AF_INET6 if ":" in destination_address else socket.AF_INET
    route_command = f"ip route get {destination_address}" + (
        f" from {source_address}" if source_address else ""
    )
    try:
        with IPRoute() as ipr:
            (route,) = ipr.route(
                "get",
                dst=destination_address,
                family=family,
                **({"src": source_address} if source_address else {}),
            )
            (link,) = ipr.get_links(route.get_attr("RTA_OIF"))
            interface = str(link.get_attr("IFLA_IFNAME"))
            return InterfaceAddress(interface, source_address or str(route.get_attr("RTA_PREFSRC")))
    except NetlinkError as error:
        raise BenchError(
            f"this machine has no route to the address: {os.strerror(error.code)}",
            where=destination_address,
            fix=f"run {route_command} to see what is missing",
        ) from error


def interface_addresses_except_link_local(interface: str, family: int) -> list[str]:
    """Return the addresses of one of this machine's interfaces, without link-local ones."""
    with IPRoute() as ipr:
        found = ipr.link_lookup(ifname=interface)
        # The scopes of <linux/rtnetlink.h>: RT_SCOPE_LINK is 253; loopback's own is RT_SCOPE_HOST, 254.
        return [
            str(each.get_attr("IFA_LOCAL") or each.get_attr("IFA_ADDRESS"))
            for index in found
            for each in ipr.get_addr(index=index, family=family)
            if each["scope"] != 253
        ]


def create_namespace(name: str) -> None:
    """Create an empty namespace."""
    try:
        _run_in_thread(lambda: _unshare_with_name(name))
    except FileExistsError:
        raise BenchError(
            "this namespace exists already",
            where=name,
            fix="run vnetbench lab clean, which removes the leftovers of an ended bench",
        ) from None
    except OSError as error:
        raise BenchError(
            f"cannot create a namespace ({error.strerror or error})",
            where=name,
            fix=FIXES_BY_ERRNO[errno.EPERM],
        ) from error


def remove_namespace(name: str) -> None:
    """Remove a namespace and every interface in it; do nothing if it does not exist."""
    try:
        netns.remove(name)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.EINVAL:  # The mount is gone; only the file is left.
            raise
        (NETNS_DIR / name).unlink(missing_ok=True)


def list_namespaces() -> list[str]:
    """Return the names of all namespaces of this machine."""
    return sorted(netns.listnetns())


def run_in_namespace(name: str, work: Callable[[], T]) -> T:
    """Run `work` in a new thread that has entered the namespace."""

    def enter() -> T:
        netns.setns(name, flags=0)
        return work()

    return _run_in_thread(enter)


def run_in_new_namespace(work: Callable[[], T]) -> T:
    """Run `work` in a new namespace that is removed afterwards."""

    def enter() -> T:
        _unshare_network()
        return work()

    return _run_in_thread(enter)


def _unshare_with_name(name: str) -> None:
    """Move this thread into a new namespace with this name."""
    _unshare_network()
    netns.attach(name, "thread-self")


def _unshare_network() -> None:
    if _C_LIBRARY.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a new thread that ends afterwards, because a namespace belongs to a thread."""
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
        # Join also after a signal's exception, so that the thread creates nothing after cleanup.
        if thread.ident is not None:
            thread.join()
    if faults:
        raise faults[0]
    return outcome[0]


def interface_index(ipr: IPRoute, interface: str) -> int:
    """Return the interface's index; raises BenchError if the interface does not exist."""
    found = ipr.link_lookup(ifname=interface)
    if not found:
        raise missing_interface_error(interface)
    return int(found[0])


def missing_interface_error(interface: str) -> BenchError:
    """Return the error for an interface of a testbed that does not exist."""
    return BenchError(
        "the interface does not exist", where=interface, fix="run vnetbench lab down, then lab up"
    )


def interface_mtu(namespace: str, interface: str) -> int:
    """Return the interface's MTU in bytes; raises BenchError if the interface does not exist."""
    try:
        return read_link_mtus(namespace)[interface].mtu
    except KeyError:
        raise missing_interface_error(interface) from None


class LinkMtu(NamedTuple):
    """The index of an interface, and its MTU in bytes."""

    ifindex: int
    mtu: int


def read_link_mtus(namespace: str) -> dict[str, LinkMtu]:
    """Return index and MTU of each interface in a namespace, by name.

    Each trial reads MTUs several times as proof, so it uses an ioctl (netdevice(7)): all of them take
    microseconds. To decode their netlink messages takes milliseconds of CPU time.

    Raises:
        BenchError: if the namespace does not exist.
    """
    with translate_errors(namespace):
        return run_in_namespace(namespace, _read_mtus_here)


def _read_mtus_here() -> dict[str, LinkMtu]:
    mtus = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for index, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, _IFREQ.pack(name.encode(), 0))
            except OSError as error:
                if error.errno != errno.ENODEV:  # Another program has removed it.
                    raise
            else:
                mtus[name] = LinkMtu(index, int(_IFREQ.unpack(answer)[1]))
    return mtus


def interface_mac(namespace: str, interface: str) -> str:
    """Return the interface's MAC address."""
    with open_in_namespace(namespace) as ipr:
        (link,) = ipr.get_links(interface_index(ipr, interface))
        return str(link.get_attr("IFLA_ADDRESS"))


def nested_attribute(message: Any, *path: str) -> Any:
    """Return a nested netlink attribute, or None."""
    for name in path:
        if message is None:
            return None
        message = message.get_attr(name)
    return message


class _NapiMessage(genlmsg):  # type: ignore[misc]
    """A NAPI instance in the kernel's format (include/uapi/linux/netdev.h, NETDEV_A_NAPI_*)."""

    nla_map = (
        ("NETDEV_A_NAPI_UNSPEC", "none"),
        ("NETDEV_A_NAPI_IFINDEX", "uint32"),
        ("NETDEV_A_NAPI_ID", "uint32"),
        ("NETDEV_A_NAPI_IRQ", "uint32"),
        ("NETDEV_A_NAPI_PID", "uint32"),
    )


def napi_thread_ids(namespace: str, interface: str) -> list[int]:
    """Return the thread ids of an interface's threaded NAPI.

    The list is empty without threaded NAPI, and before Linux 6.9, which reports the threads first.
    """
    with open_in_namespace(namespace) as ipr:
        index = interface_index(ipr, interface)

    def query() -> list[int]:
        request = _NapiMessage()
        request["cmd"], request["version"] = _NETDEV_CMD_NAPI_GET, 1
        with GenericNetlinkSocket() as netdev:
            netdev.bind("netdev", _NapiMessage)
            replies = netdev.nlm_request(request, msg_type=netdev.prid, msg_flags=NLM_F_REQUEST | NLM_F_DUMP)
            own = [each for each in replies if each.get_attr("NETDEV_A_NAPI_IFINDEX") == index]
        return [thread for each in own if (thread := each.get_attr("NETDEV_A_NAPI_PID"))]

    try:
        return run_in_namespace(namespace, query)
    except NetlinkError:
        return []
