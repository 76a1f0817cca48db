"""Read the VMs of Proxmox VE through its API, with an access token. Only GET requests are sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from vnetbench.audit.duplicates import mark_duplicate_addresses
from vnetbench.audit.files.proxmox import add_config
from vnetbench.audit.inventory import Inventory, shorten
from vnetbench.audit.live.access_token import AccessToken, find_token
from vnetbench.audit.live.time_limit import yield_within_time_limit
from vnetbench.errors import BenchError
from vnetbench.quantity import format_count_with_noun

SCHEME = "proxmox://"
TOKEN_VARIABLE = "VNETBENCH_PROXMOX_TOKEN"
REQUEST_TIMEOUT_S = 30.0
DEFAULT_PORT = 8006
_TOKEN_NAME = re.compile(r"[^\s!@]+@[^\s!@]+![A-Za-z][\w.-]*", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}")
_TOKEN_FORM = "USER@REALM!TOKEN"
INCOMPLETE_ANSWER_FIX = "check that the address is that of Proxmox VE's API, and look into its log (pveproxy)"


class VmConfig(NamedTuple):
    """The configuration of a VM, or why it could not be read."""

    vm_id: int
    values: Mapping[str, str] | BenchError


class _Vm(NamedTuple):
    vm_id: int
    node: str
    name: str


class _LeftOutContainers(NamedTuple):
    number: int


def is_proxmox_target(target: str) -> bool:
    """Return whether a target names an API, such as `proxmox://pve-01`."""
    return target.startswith(SCHEME)


def read_proxmox_api(target: str) -> Iterator[Inventory | BenchError]:
    """Yield the inventory of all VMs that the token may see, and the errors of VMs that could not be read.

    Args:
        target: `proxmox://HOST[:PORT]`, and `#ID` or `#NAME` behind it for one VM.

    Raises:
        BenchError: there is no token, the API refuses it, or it has no such VM.
    """
    host, port, wanted = _parse_target(target)
    _check_libraries(target)
    token = _find_token(host)
    inventory = Inventory(target)
    for item in yield_within_time_limit(_read_configs(host, port, token, wanted, target), target):
        if isinstance(item, _LeftOutContainers):
            containers = format_count_with_noun(item.number, "container")
            inventory.notes.append(f"{target}: {containers} left out. The audit reads VMs.")
        elif isinstance(item.values, BenchError):
            yield item.values
        else:
            add_config(inventory, item.values)
    if inventory.objects:
        mark_duplicate_addresses([inventory])
        yield inventory


def _parse_target(target: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(target)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError:
        host, port, parts = "", 0, urlsplit(SCHEME)
    if "@" in parts.netloc:
        raise BenchError(
            "the target contains a user, and perhaps a secret that others on this machine can read",
            where=SCHEME,
            fix=f"write proxmox://HOST, and put the token into {TOKEN_VARIABLE} or a netrc file",
        )
    if not host or parts.path.strip("/") or parts.query:
        raise BenchError("this names no host", where=target, fix="write proxmox://HOST, or proxmox://HOST#ID")
    return host, port, parts.fragment


def _check_libraries(where: str) -> None:
    try:
        # This module of proxmoxer ends the program if requests is missing.
        import proxmoxer.backends.https  # noqa: F401
    except (ImportError, SystemExit):
        raise BenchError(
            "Proxmox VE's API needs the libraries proxmoxer and requests, which are not installed",
            where=where,
            fix="pip install 'vnetbench[proxmox]'",
        ) from None


def _find_token(host: str) -> AccessToken:
    token = find_token(host, TOKEN_VARIABLE, separator="=")
    if token is None:
        raise BenchError(
            "there is no token for this host",
            where=f"{SCHEME}{host}",
            fix=f"set {TOKEN_VARIABLE} to {_TOKEN_FORM}=SECRET, or add to ~/.netrc:"
            f" machine {host} login {_TOKEN_FORM} password SECRET",
        )
    if not _TOKEN_NAME.fullmatch(token.name) or not token.secret.isprintable():
        raise BenchError(
            f"the name of the token is not of the form {_TOKEN_FORM}",
            where=f"{SCHEME}{host}",
            fix="take the token's ID as Proxmox VE shows it, such as audit@pve!vnetbench",
        )
    return token


def _read_configs(
    host: str, port: int, token: AccessToken, wanted: str, where: str
) -> Iterator[VmConfig | _LeftOutContainers]:
    with _errors_as_sentences(where, token.name):
        api = _connect(host, port, token)
        guests = api.cluster.resources.get(type="vm")
        vms = _parse_vms(guests, where)
        if not vms:
            raise BenchError(
                "the token sees no VM",
                where=where,
                fix=_grant_command(token.name),
            )
        chosen = [vm for vm in vms if wanted in ("", str(vm.vm_id), vm.name)]
        if not chosen:
            raise BenchError("there is no such VM", where=where, fix="list the VMs there: qm list")
        if not wanted and (count := sum(guest.get("type") == "lxc" for guest in guests)):
            yield _LeftOutContainers(count)
        for vm in chosen:
            yield _read_config(api, vm, where.partition("#")[0], token.name)


def _connect(host: str, port: int, token: AccessToken) -> Any:
    from proxmoxer import ProxmoxAPI

    user, _, token_name = token.name.partition("!")
    return ProxmoxAPI(
        f"[{host}]" if ":" in host else host,
        port=port,
        user=user,
        token_name=token_name,
        token_value=token.secret,
        verify_ssl=True,
        timeout=REQUEST_TIMEOUT_S,
    )


def _parse_vms(guests: object, where: str) -> list[_Vm]:
    """Return the VMs of the answer of `/cluster/resources`."""
    vms = []
    if not isinstance(guests, list) or not all(isinstance(guest, dict) for guest in guests):
        raise _incomplete_answer(where)
    for guest in guests:
        if guest.get("type") != "qemu":
            continue
        vm_id, node = guest.get("vmid"), guest.get("node")
        if type(vm_id) is not int or not isinstance(node, str) or not _NODE.fullmatch(node):
            raise _incomplete_answer(where)
        vms.append(_Vm(vm_id, node, str(guest.get("name", ""))))
    return sorted(vms)


def _read_config(api: Any, vm: _Vm, host: str, token_name: str) -> VmConfig:
    where = f"{host}#{vm.vm_id}"
    try:
        with _errors_as_sentences(where, token_name):
            # Without `current`, the answer has changes that wait for a restart of the VM.
            values = api.nodes(vm.node).qemu(vm.vm_id).config.get(current=1)
            if not isinstance(values, dict) or "digest" not in values:
                raise _incomplete_answer(where)
            return VmConfig(vm.vm_id, {str(key): str(value) for key, value in values.items()})
    except BenchError as error:
        return VmConfig(vm.vm_id, error)


@contextmanager
def _errors_as_sentences(where: str, token_name: str) -> Iterator[None]:
    """Raise BenchError for what the libraries and the API report."""
    import requests
    from proxmoxer import ResourceException

    try:
        yield
    except ResourceException as error:
        raise _refusal(int(error.status_code), shorten(str(error.content)), where, token_name) from None
    except requests.exceptions.SSLError as error:
        raise BenchError(
            f"the certificate is refused: {_certificate_problem(error)}",
            where=where,
            fix="copy /etc/pve/pve-root-ca.pem of the host here, set REQUESTS_CA_BUNDLE to this copy,"
            " and use the host's name as in the certificate",
        ) from None
    except (requests.exceptions.ConnectionError, requests.exceptions.Timeout):
        raise BenchError(
            "the API cannot be reached, or the connection was cut",
            where=where,
            fix=f"check the name, the port ({DEFAULT_PORT} by default) and the firewall",
        ) from None
    except (requests.exceptions.RequestException, KeyError, TypeError, ValueError):
        raise _incomplete_answer(where) from None


def _refusal(status: int, message: str, where: str, token_name: str) -> BenchError:
    if status == 401:
        return BenchError(
            f"Proxmox VE refuses the token {shorten(token_name)}",
            where=where,
            fix="check its ID, its secret, and whether it has expired (pveum user token list USER@REALM)",
        )
    if status == 403:
        return BenchError(
            f"the token may not read this: {message}",
            where=where,
            fix=_grant_command(token_name),
        )
    if "does not exist" in message:
        return BenchError(
            "there is no such VM, or it was removed or migrated during the audit",
            where=where,
            fix="repeat the audit",
        )
    return BenchError(
        f"the API answers with an error: {status} {message}",
        where=where,
        fix="check that the node runs and is part of the cluster (pvecm status)",
    )


def _grant_command(token_name: str) -> str:
    return f"let it read: pveum acl modify / --tokens '{shorten(token_name)}' --roles PVEAuditor"


def _certificate_problem(error: Exception) -> str:
    match = re.search(r"certificate verify failed: ([^(\"']{1,120})", str(error))
    return match[1].strip() if match else "no TLS connection is possible"


def _incomplete_answer(where: str) -> BenchError:
    return BenchError("the answer of the API is incomplete", where=where, fix=INCOMPLETE_ANSWER_FIX)
