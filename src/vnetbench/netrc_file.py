"""The user's netrc file: names and secrets by host."""

from __future__ import annotations

import netrc
import os
from pathlib import Path
from typing import NamedTuple

from vnetbench.errors import BenchError

NETRC_VARIABLE = "NETRC"
"""Names another netrc file, as for curl and requests."""


class NetrcLogin(NamedTuple):
    """A name and its secret."""

    name: str
    secret: str

    def __repr__(self) -> str:
        return f"NetrcLogin(name={self.name!r})"


def read_login(host: str) -> NetrcLogin | None:
    """Return the login of a host, or None if the file has none.

    Raises:
        BenchError: the file is damaged, or others can read it.
    """
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
    return NetrcLogin(entry[0], entry[2])
