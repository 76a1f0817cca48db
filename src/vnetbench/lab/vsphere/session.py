"""Sessions with vCenter or ESXi through pyvmomi, and its errors as sentences. The library is optional."""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any
from xml.parsers.expat import ExpatError

from vnetbench.errors import BenchError
from vnetbench.lab.vsphere.address import VsphereAddress
from vnetbench.lab.vsphere.password import PASSWORD_VARIABLE, find_password
from vnetbench.printable import make_printable

REQUEST_TIMEOUT_S = 60.0
API_PATH = "/sdk"
MAX_MESSAGE_CHARACTERS = 200
_OLDEST_VERSION = "vim.version.version9"
"""vSphere 5.5, which every newer server also understands."""


def import_vim(where: str) -> Any:
    """Return pyvmomi's module `vim`; raises BenchError if the library is not installed."""
    try:
        from pyVmomi import vim
    except ImportError:
        raise BenchError(
            "a vSphere server needs the library pyvmomi, which is not installed",
            where=where,
            fix="pip install 'vnetbench[vsphere]'",
        ) from None
    return vim


@contextmanager
def open_session(address: VsphereAddress) -> Iterator[Any]:
    """Log in, yield the server's `ServiceContent`, and log out.

    The server's certificate is verified before the password is looked up.

    Raises:
        BenchError: the server cannot be reached, is no vSphere server, has a certificate that is not trusted,
            or refuses the login or a call.
    """
    where = str(address)
    vim = import_vim(where)
    with _errors_as_sentences(address):
        context = _make_tls_context(address)
        stub = _make_stub(address, context, _OLDEST_VERSION)
        try:
            with _foreign_answers_as_sentences(where):
                about = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent().about
        finally:
            stub.DropConnections()
        stub = _make_stub(address, context, _choose_version(about.apiVersion))
        try:
            content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
            content.sessionManager.Login(address.user, find_password(address))
            try:
                yield content
            finally:
                # The session is gone already if the server ended it.
                with suppress(vim.fault.VimFault, vim.RuntimeFault, HTTPException, OSError):
                    content.sessionManager.Logout()
        finally:
            stub.DropConnections()


def read_thumbprint(address: VsphereAddress) -> str:
    """Return the SHA-256 thumbprint of the certificate that the server shows, without verifying it."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(_read_certificate(address))).hexdigest()


def _make_tls_context(address: VsphereAddress) -> ssl.SSLContext:
    """Return a context that verifies the server: by authorities, or by the thumbprint alone."""
    if not address.thumbprint:
        try:
            return ssl.create_default_context(cafile=address.ca_file or None)
        except (OSError, ssl.SSLError):
            raise BenchError(
                "the file has no certificate of an authority that can be read",
                where=address.ca_file,
                fix="give a PEM file, such as the trusted root CA certificate from vCenter's start page",
            ) from None
    certificate = _read_certificate(address)
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
    if found != address.thumbprint:
        raise BenchError(
            f"the server shows another certificate, with the thumbprint {found}",
            where=str(address),
            fix="ask the administrator whether the certificate has changed; if so, use this thumbprint",
        )
    # pyvmomi's own option checks only its first connection. This context trusts one certificate on all.
    context = ssl.create_default_context(cadata=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _read_certificate(address: VsphereAddress) -> str:
    return ssl.get_server_certificate((address.host, address.port), timeout=REQUEST_TIMEOUT_S)


def _make_stub(address: VsphereAddress, context: ssl.SSLContext, version: str) -> Any:
    from pyVmomi import SoapStubAdapter

    return SoapStubAdapter(
        host=f"[{address.host}]" if ":" in address.host else address.host,
        port=address.port,
        path=API_PATH,
        version=version,
        sslContext=context,
        httpConnectionTimeout=REQUEST_TIMEOUT_S,
    )


def _choose_version(server_version: str) -> str:
    """Return the newest version of the API that both pyvmomi and the server know."""
    from pyVmomi.VmomiSupport import GetServiceVersions, versionIdMap

    limit = _parse_version(server_version)
    for name in GetServiceVersions("vim25"):  # The newest is first.
        version = _parse_version(versionIdMap.get(name, ""))
        if version and version <= limit:
            return str(name)
    return _OLDEST_VERSION


def _parse_version(text: str) -> tuple[int, ...]:
    """Return a version as numbers; empty for a name that is no version."""
    return tuple(map(int, text.split("."))) if re.fullmatch(r"\d+(\.\d+)+", text) else ()


@contextmanager
def _errors_as_sentences(address: VsphereAddress) -> Iterator[None]:
    """Raise BenchError for what the library and the server report."""
    vim = import_vim(str(address))
    where = str(address)
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise _refused_certificate(address, error) from None
    except (vim.fault.InvalidLogin, vim.fault.NoPermission) as error:
        is_login = isinstance(error, vim.fault.InvalidLogin)
        raise BenchError(
            "the server refuses the user name or the password" if is_login else "the user may not do this",
            where=where,
            fix=f"check the user (such as audit@vsphere.local) and {PASSWORD_VARIABLE} or the netrc file"
            if is_login
            else f"give the user the privilege {error.privilegeId} on this object",
        ) from None
    except (vim.fault.VimFault, vim.RuntimeFault) as error:
        raise BenchError(
            f"the server reports an error: {format_fault(error)}",
            where=where,
            fix="look into the server's tasks and events",
        ) from None
    except ssl.SSLError:
        raise BenchError(
            "the server does not speak TLS at this port", where=where, fix="check the port (443 by default)"
        ) from None
    except (HTTPException, ExpatError):
        raise BenchError(
            "the connection was cut, or the answer is damaged",
            where=where,
            fix="repeat the command, and look into the server's log",
        ) from None
    except OSError as error:
        raise BenchError(
            f"the server cannot be reached: {error.strerror or error}",
            where=where,
            fix="check the name, the port (443 by default) and the firewall",
        ) from None


@contextmanager
def _foreign_answers_as_sentences(where: str) -> Iterator[None]:
    """Raise BenchError if the answer to the first request is not one of vSphere."""
    try:
        yield
    except OSError:
        raise
    except (HTTPException, ExpatError, ValueError, LookupError, AttributeError, TypeError):
        raise BenchError(
            "the answer is not that of a vSphere server",
            where=where,
            fix="name vCenter or an ESXi host, with the port of its API (443 by default)",
        ) from None


def format_fault(fault: Any) -> str:
    """Return the message of a fault on one line."""
    message = " ".join(str(getattr(fault, "msg", "") or type(fault).__name__).split())
    return make_printable(message[:MAX_MESSAGE_CHARACTERS])


def _refused_certificate(address: VsphereAddress, error: ssl.SSLCertVerificationError) -> BenchError:
    shown = ""
    with suppress(OSError, ValueError):
        shown = read_thumbprint(address)
    return BenchError(
        f"the certificate of the server is refused: {error.verify_message}",
        where=str(address),
        fix=f"give its authority ({address}?ca=FILE); or compare this thumbprint with the one that the"
        f" server's console shows, and give it: {address}?thumbprint={shown}",
    )
