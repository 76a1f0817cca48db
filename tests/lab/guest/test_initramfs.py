"""Tests of the initramfs: an archive that the kernel can read, with reproducible bytes."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from vnetbench.lab.guest.initramfs import build_archive


def entries(content: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Yield name, mode and content of each entry, by the kernel's buffer-format.rst."""
    at = 0
    while True:
        assert content[at : at + 6] == b"070701" and at % 4 == 0
        fields = [int(content[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_bytes = fields[1], fields[6], fields[11]
        name = content[at + 110 : at + 110 + name_bytes - 1].decode()
        begin = at + 110 + name_bytes + -(110 + name_bytes) % 4
        if name == "TRAILER!!!":
            assert at + 110 + name_bytes <= len(content)
            return
        yield name, mode, content[begin : begin + size]
        at = begin + size + -size % 4


def test_it_contains_the_agent_the_console_and_the_modules_in_order() -> None:
    modules = {"b": b"elf of b", "a": b"elf of a!"}
    found = {name: (mode, content) for name, mode, content in entries(build_archive(b"the agent", modules))}
    assert found["vnetbench-agent"] == (stat.S_IFREG | 0o755, b"the agent")
    assert stat.S_ISCHR(found["dev/console"][0])
    assert found["modules/order"][1] == b"/modules/b.ko\n/modules/a.ko\n"
    assert found["modules/a.ko"][1] == b"elf of a!"
    assert all(stat.S_ISDIR(found[name][0]) for name in ("dev", "proc", "sys", "run", "tmp"))


def test_the_order_states_the_parameters_of_a_module() -> None:
    order = {name: content for name, _, content in entries(build_archive(b"", {"bonding": b"1"}))}
    assert order["modules/order"] == b"/modules/bonding.ko max_bonds=0\n"


def test_the_same_contents_give_the_same_bytes() -> None:
    assert build_archive(b"agent", {"a": b"1"}) == build_archive(b"agent", {"a": b"1"})
    assert build_archive(b"agent", {"a": b"1"}) != build_archive(b"agent", {"a": b"2"})
