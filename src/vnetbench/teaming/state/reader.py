"""Read the state of a team from a file, whatever printed it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.regular_file import read_bounded
from vnetbench.teaming.state import esxi, linux_bonding, open_vswitch, teamd, vsphere
from vnetbench.teaming.state.team_state import TeamState

MAX_STATE_BYTES = 4 * 2**20
"""A dump of a host with thousands of ports has less."""
_KNOWN_DUMPS = (
    "/proc/net/bonding/*, ovs-appctl bond/show, teamdctl TEAM state [dump], esxcli network, or vSphere's"
    " config.network as JSON"
)


_READERS = (
    (linux_bonding.is_bonding_dump, linux_bonding.DUMP_FORMAT, linux_bonding.read_bonding_dump),
    (open_vswitch.is_bond_show, open_vswitch.DUMP_FORMAT, open_vswitch.read_bond_show),
    (teamd.is_teamd_state, teamd.DUMP_FORMAT, teamd.read_teamd_state),
    (vsphere.is_vsphere_inventory, vsphere.DUMP_FORMAT, vsphere.read_vsphere_inventory),
    (esxi.is_esxcli_dump, esxi.DUMP_FORMAT, esxi.read_esxcli_dumps),
)
"""For each format: whether a text has it, its name, and its reader."""


def read_state_files(paths: Sequence[Path], team_name: str | None = None) -> TeamState:
    """Return the state that the files describe together; several files are dumps of esxcli.

    Args:
        paths: Files.
        team_name: As in `parse_state`.

    Raises:
        BenchError: A file cannot be read, is too large, or has an unknown format, or several files are not
            all of esxcli.
        OSError: A file does not exist.
    """
    texts = [read_bounded(path, MAX_STATE_BYTES).decode(errors="replace") for path in paths]
    for path, text in zip(paths, texts, strict=True):
        if len(paths) > 1 and _find_formats(text) != [esxi.DUMP_FORMAT]:
            raise BenchError(
                "several files of --state are one team only if all are dumps of esxcli",
                where=str(path),
                fix="give one file for each team, in a command of its own",
            )
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
        BenchError: The dump has an unknown format or several ones, or its reader refuses it.
    """
    text = text.replace("\r\n", "\n")
    formats = _find_formats(text)
    if len(formats) > 1:
        raise BenchError(
            f"the dump has parts of {' and '.join(formats)}", fix="give a file with one team of one format"
        )
    for _, name, read in _READERS:
        if name in formats:
            return read(text, team_name)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    start = f'starts with "{make_printable(first[:60])}"' if first else "is empty"
    raise BenchError(f"the dump {start}, which is no known format", fix=f"give the output of {_KNOWN_DUMPS}")


def _find_formats(text: str) -> list[str]:
    return [name for has_format, name, _ in _READERS if has_format(text)]
