"""Read the state of a team from a file, whatever printed it."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.teaming.state import esxi, linux_bonding, open_vswitch, teamd, vsphere
from vnetbench.teaming.state.team_state import TeamState

MAX_STATE_BYTES = 4 * 2**20
"""A dump of a host with thousands of ports has less."""
_KNOWN_DUMPS = (
    "/proc/net/bonding/*, ovs-appctl bond/show, teamdctl TEAM state [dump], esxcli network, or vSphere's"
    " config.network as JSON"
)


def read_state_files(paths: Sequence[Path], team_name: str | None = None) -> TeamState:
    """Return the state that the files describe together; several files are dumps of esxcli.

    Args:
        paths: Files.
        team_name: As in `parse_state`.

    Raises:
        BenchError: A file cannot be read, is too large, or has an unknown format.
        OSError: A file does not exist.
    """
    texts = [read_bounded(path, MAX_STATE_BYTES).decode(errors="replace") for path in paths]
    where = " and ".join(map(str, paths))
    try:
        return parse_state("\n".join(texts), team_name)
    except BenchError as error:
        raise BenchError(error.what, where=where, fix=error.fix) from None


def parse_state(text: str, team_name: str | None = None) -> TeamState:
    """Return the state that a dump describes.

    Args:
        text: The dump.
        team_name: Name of the bond or virtual switch, if the dump has several.

    Raises:
        BenchError: The dump has an unknown format, or its reader refuses it.
    """
    text = text.replace("\r\n", "\n")
    if linux_bonding.is_bonding_dump(text):
        return linux_bonding.read_bonding_dump(text)
    if open_vswitch.is_bond_show(text):
        return open_vswitch.read_bond_show(text, team_name)
    if teamd.is_teamd_state(text):
        return teamd.read_teamd_state(text)
    if vsphere.is_vsphere_inventory(text):
        return vsphere.read_vsphere_inventory(text, team_name)
    if esxi.is_esxcli_dump(text):
        return esxi.read_esxcli_dumps(text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    start = f'starts with "{make_printable(first[:60])}"' if first else "is empty"
    raise BenchError(f"the dump {start}, which is no known format", fix=f"give the output of {_KNOWN_DUMPS}")


def read_bounded(path: Path, limit: int) -> bytes:
    """Return the content of a file.

    Raises:
        BenchError: The file is no regular file or has more than `limit` bytes.
        OSError: The file cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise BenchError("this is no regular file", where=str(path), fix="give a file")
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise BenchError(
            f"the file has more than {limit // 2**20} MiB", where=str(path), fix="give a smaller file"
        )
    return content
