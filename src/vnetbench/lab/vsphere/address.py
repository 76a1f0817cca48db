"""Addresses of vSphere servers, as targets and studies write them."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from vnetbench.errors import BenchError

SCHEME = "vsphere://"
DEFAULT_PORT = 443
EXAMPLE = "vsphere://USER@HOST/"
_SHA256_DIGITS = 64


class VsphereAddress(NamedTuple):
    """A vCenter or ESXi server, the user who logs in there, and how its certificate is verified."""

    host: str
    port: int
    user: str
    ca_file: str
    """File with the certificate authority of the server; empty: the system's."""
    thumbprint: str
    """SHA-256 thumbprint of the server's certificate, in lower case; empty: not pinned."""
    vm_name: str
    """The only VM to read; empty: all."""

    def __str__(self) -> str:
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        return f"{SCHEME}{self.user}@{f'[{self.host}]' if ':' in self.host else self.host}{port}/"


def is_vsphere_address(text: str) -> bool:
    """Return whether a text names a vSphere server, such as `vsphere://audit@vc-01/`."""
    return text.startswith(SCHEME)


def parse_address(text: str) -> VsphereAddress:
    """Return the address of `vsphere://USER@HOST[:PORT]/[?ca=FILE][?thumbprint=SHA256][#VM]`.

    Raises:
        BenchError: the text has another form, or contains a password.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise BenchError("this names no vSphere server", where=SCHEME, fix=f"write {EXAMPLE}") from None
    if parts.password is not None:
        raise BenchError(
            "the address contains a password, which others on this machine can read",
            where=SCHEME,
            fix=f"write {EXAMPLE}, and put the password into VNETBENCH_VSPHERE_PASSWORD or a netrc file",
        )
    if not host or not parts.username or parts.path.strip("/") or set(options) - {"ca", "thumbprint"}:
        raise BenchError("this names no vSphere server with a user", where=text, fix=f"write {EXAMPLE}")
    thumbprint = options.get("thumbprint", [""])[-1].replace(":", "").lower()
    if "thumbprint" in options and (
        len(thumbprint) != _SHA256_DIGITS or set(thumbprint) - set("0123456789abcdef")
    ):
        raise BenchError(
            "the thumbprint is not a SHA-256 thumbprint",
            where=text,
            fix="write 64 hexadecimal digits, with or without colons",
        )
    return VsphereAddress(
        host, port, unquote(parts.username), options.get("ca", [""])[-1], thumbprint, unquote(parts.fragment)
    )
