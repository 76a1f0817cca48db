"""Connections to libvirt, and its errors as sentences. The library is optional."""

from __future__ import annotations

import re
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable

URI_PATTERN = re.compile(r"(qemu|test)(\+[a-z0-9]+)?://")
"""URIs of the drivers that vnetbench knows. The driver `test` has VMs that do not run."""
_PASSWORD = re.compile(r"//[^/?#]*:[^/?#]*@")
MAX_MESSAGE_CHARACTERS = 300
INSTALL_FIX = "pip install 'vnetbench[libvirt]' (Debian: also apt install libvirt-dev pkg-config)"


def is_libvirt_uri(text: str) -> bool:
    """Return whether a text is a URI of libvirt, such as `qemu:///system`."""
    return URI_PATTERN.match(text) is not None


def import_libvirt(where: str) -> Any:
    """Return the library libvirt-python; raises BenchError if it is not installed."""
    try:
        import libvirt
    except ImportError:
        raise BenchError(
            "a libvirt URI needs the library libvirt-python, which is not installed",
            where=where,
            fix=INSTALL_FIX,
        ) from None
    # The library's own handler prints each error, which the caller reports once.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    return libvirt


def open_connection(uri: str, *, read_only: bool) -> Any:
    """Return a connection (`virConnect`). Close it after use.

    Raises:
        BenchError: the library is missing, or libvirt refuses the connection.
    """
    if _PASSWORD.search(uri):
        raise BenchError(
            "the URI contains a password, which other users of this machine can read",
            where=_PASSWORD.sub("//…@", uri),
            fix="leave the password out, and use an SSH key or a certificate",
        )
    libvirt = import_libvirt(uri)
    try:
        return libvirt.openReadOnly(uri) if read_only else libvirt.open(uri)
    except libvirt.libvirtError as error:
        option = "-r " if read_only else ""
        raise BenchError(
            f"libvirt refuses the connection: {format_error(error)}",
            where=uri,
            fix=f"check that this works: virsh {option}-c '{uri}' list --all",
        ) from None


def format_error(error: Any) -> str:
    """Return the message of a libvirtError on one line."""
    message = " ".join(str(error.get_error_message() or error).split())
    return make_printable(message[:MAX_MESSAGE_CHARACTERS])


def is_missing_domain(error: Any) -> bool:
    """Return whether a libvirtError says that the domain does not exist."""
    import libvirt

    return bool(error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN)
