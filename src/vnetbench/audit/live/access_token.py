"""The user's access token for an API: from the environment, or from a netrc file. Never from an argument."""

from __future__ import annotations

import os
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.netrc_file import read_login


class AccessToken(NamedTuple):
    """A name and its secret."""

    name: str
    secret: str

    def __repr__(self) -> str:
        return f"AccessToken(name={self.name!r})"


def find_token(host: str, variable: str, separator: str) -> AccessToken | None:
    """Return the token for a host, or None if the user has none.

    Args:
        host: Name of the host, as the netrc file has it after `machine`.
        variable: Environment variable with the name, the separator and the secret.
        separator: What stands between the name and the secret in the variable.

    Raises:
        BenchError: the variable or the netrc file is damaged.
    """
    if value := os.environ.get(variable, "").strip():
        name, found, secret = value.partition(separator)
        if not (name and found and secret):
            raise BenchError("the value has no name, or no secret", where=variable,
                             fix=f"write it as NAME{separator}SECRET")  # fmt: skip
        return AccessToken(name, secret)
    login = read_login(host)
    return None if login is None else AccessToken(login.name, login.secret)
