"""The user's access token for an API: from the environment, or from a netrc file. Never from an argument."""

from __future__ import annotations

import netrc
import os
from pathlib import Path
from typing import NamedTuple

from vnetbench.errors import BenchError

NETRC_VARIABLE = "NETRC"
"""Names another netrc file, as for curl and requests."""


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
    return _read_netrc(host)


def _read_netrc(host: str) -> AccessToken | None:
    path = Path(os.environ.get(NETRC_VARIABLE) or Path.home() / ".netrc")
    if not path.exists():
        return None
    try:
        mode = path.stat().st_mode
        entry = netrc.netrc(str(path)).authenticators(host)
    except netrc.NetrcParseError as error:
        raise BenchError(
            f"the file is damaged in line {error.lineno}", where=str(path), fix="see netrc(5)"
        ) from None
    except (OSError, UnicodeError):
        raise BenchError(
            "cannot read the file", where=str(path), fix="check its permissions and its encoding"
        ) from None
    if entry is None or not entry[0] or not entry[2]:
        return None
    if mode & 0o077:
        raise BenchError(
            "other users can read the secrets in this file", where=str(path), fix=f"chmod 600 {path}"
        )
    return AccessToken(entry[0], entry[2])
