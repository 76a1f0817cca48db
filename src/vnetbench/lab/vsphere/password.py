"""The password for a vSphere server. It never comes from an argument, and is never written anywhere."""

from __future__ import annotations

import getpass
import os
import sys

from vnetbench.errors import BenchError
from vnetbench.lab.vsphere.address import VsphereAddress
from vnetbench.netrc_file import read_login

PASSWORD_VARIABLE = "VNETBENCH_VSPHERE_PASSWORD"
KEYRING_SERVICE = "vnetbench"


def find_password(address: VsphereAddress) -> str:
    """Return the password: from the environment, the netrc file, the keyring, or a prompt.

    Raises:
        BenchError: there is none, and no terminal to ask at.
    """
    if password := os.environ.get(PASSWORD_VARIABLE):
        return password
    login = read_login(address.host)
    if login is not None and login.name == address.user:
        return login.secret
    if password := _read_keyring(address):
        return password
    if sys.stdin.isatty():
        return getpass.getpass(f"Password of {address.user} at {address.host}: ")
    raise BenchError(
        "there is no password for this server",
        where=str(address),
        fix=f"set {PASSWORD_VARIABLE}, add the user to ~/.netrc"
        f" (machine {address.host} login {address.user} password …), or store it:"
        f" keyring set {KEYRING_SERVICE} {address.user}@{address.host}",
    )


def _read_keyring(address: VsphereAddress) -> str | None:
    """Return the password that the user stored with `keyring set`, if the library is installed."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        return keyring.get_password(KEYRING_SERVICE, f"{address.user}@{address.host}")
    except KeyringError:
        return None  # This machine has no keyring, or it is locked: the prompt remains.
