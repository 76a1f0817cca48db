"""Read the targets of an audit: this machine, machines over SSH, hypervisors, files and folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from vnetbench.audit.duplicates import mark_duplicate_addresses
from vnetbench.audit.files import libvirt, proxmox, vmx, vsphere
from vnetbench.audit.files.text import parse_json, read_text
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.linux.collect import collect_local, collect_over_ssh, read_linux_listing
from vnetbench.audit.linux.sections import is_linux_listing
from vnetbench.audit.live import libvirt_host, proxmox_api, vsphere_api
from vnetbench.audit.windows import guest
from vnetbench.errors import BenchError
from vnetbench.lab.vsphere.address import is_vsphere_address
from vnetbench.libvirt_connection import is_libvirt_uri
from vnetbench.printable import make_printable
from vnetbench.quantity import format_count_with_noun

LOCAL = "local"
FILE_SUFFIXES = (".vmx", ".xml", ".conf", ".json", ".txt")
"""Names of files that the audit looks for in folders."""
MAX_FOLDER_FILES = 2000
_MAX_FOLDER_DEPTH = 8


def read_target(target: str, save_export: Path | None = None) -> Iterator[Inventory | BenchError]:
    """Yield the inventories of a target, and the errors of what could not be read.

    Args:
        target: As the user named it.
        save_export: Where to store the export of a vSphere server.
    """
    try:
        if target == LOCAL:
            yield collect_local()
        elif is_libvirt_uri(target):
            yield from libvirt_host.read_libvirt_uri(target)
        elif proxmox_api.is_proxmox_target(target):
            yield from proxmox_api.read_proxmox_api(target)
        elif is_vsphere_address(target):
            yield from vsphere_api.read_vsphere(target, save_export)
        elif Path(target).is_dir():
            yield from _read_folder(Path(target))
        elif Path(target).exists():
            yield _read_file(Path(target))
        elif "/" in target.removeprefix("ssh://") or target.endswith(FILE_SUFFIXES):
            raise BenchError("there is no such file", where=target, fix="check the path")
        elif target.startswith("-") or not target.isprintable() or target.split() != [target]:
            raise BenchError("this names no machine", where=target, fix="write a name as for ssh, or a file")
        else:
            yield collect_over_ssh(target)
    except BenchError as error:
        yield error


def _read_file(path: Path) -> Inventory:
    inventory = read_content(read_text(path), str(path), path.name)
    mark_duplicate_addresses([inventory])
    return inventory


def read_content(text: str, where: str, name: str) -> Inventory:
    """Return the inventory of a file's text.

    Raises:
        BenchError: The text is damaged, or of no known form.
    """
    reader = _find_reader(text, name)
    if reader is None:
        raise BenchError(
            "the audit does not know this form of file",
            where=where,
            fix="give a .vmx file, a libvirt domain XML, a qm config, an export of vSphere as JSON, or the"
            " output of a script of vnetbench audit",
        )
    return reader(text, where)


def _find_reader(text: str, name: str) -> Callable[[str, str], Inventory] | None:
    """Return the reader of a file, by its content."""
    start = text.lstrip()
    if is_linux_listing(start):
        return read_linux_listing
    if start.startswith(("{", "[")):
        return _read_json
    if start.startswith("<"):
        return libvirt.read_domain
    if vmx.is_vmx(text) or name.lower().endswith(".vmx"):
        return vmx.read_vmx
    return proxmox.read_config if proxmox.is_config(text) else None


def _read_json(text: str, where: str) -> Inventory:
    document = parse_json(text, where)
    if guest.is_windows_document(document):
        return guest.read_windows_guest(document, where)
    return vsphere.read_inventory(document, where)


def _read_folder(folder: Path) -> Iterator[Inventory | BenchError]:
    """Yield the inventories of all files of known forms in a folder, and errors of damaged ones."""
    inventories: list[Inventory] = []
    other_files = 0
    for path in _list_files(folder):
        try:
            text = read_text(path)
            reader = _find_reader(text, path.name)
            if reader is None or (
                reader is libvirt.read_domain and not re.search(r"<domain[\s>]", text[:65536])
            ):
                other_files += 1
            else:
                inventories.append(reader(text, str(path)))
        except BenchError as error:
            yield BenchError(error.what, where=error.where or str(path), fix=error.fix)
    if not inventories:
        yield BenchError(
            f"the folder has no readable file of a known form ({', '.join(FILE_SUFFIXES)})",
            where=str(folder),
            fix="give a folder with .vmx files, domain XMLs, qm configs or exports",
        )
        return
    if other_files:
        left_out = format_count_with_noun(other_files, "file")
        inventories[0].notes.append(f"{make_printable(str(folder))}: {left_out} of other forms left out.")
    mark_duplicate_addresses(inventories)
    yield from inventories


def _list_files(folder: Path) -> list[Path]:
    """Return the files of a folder and its subfolders; links are not followed."""
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        if len(Path(root).relative_to(folder).parts) >= _MAX_FOLDER_DEPTH:
            folders.clear()
        for name in sorted(names):
            path = Path(root, name)
            if name.lower().endswith(FILE_SUFFIXES) and path.is_file() and not path.is_symlink():
                found.append(path)
        if len(found) > MAX_FOLDER_FILES:
            raise BenchError(
                f"the folder has more than {MAX_FOLDER_FILES} files",
                where=str(folder),
                fix="give its subfolders",
            )
    return found
