"""Settings of the kernel (sysctl): in a testbed's namespaces, or where only that has them of the machine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.corpus.scene import Disturb, Scene
from vnetbench.lab import netlink

_SYS = Path("/proc/sys")
LEFT = Path(tempfile.gettempdir()) / "vnetbench-corpus-settings.json"
"""How settings of the machine were, while a run has them otherwise."""


def settings(sides: str, values: Mapping[str, str]) -> Disturb:
    """These settings, by their paths below /proc/sys, in the namespaces of all endpoints of these sides."""
    return _settings(lambda scene: [end.namespace for end in scene.vms if end.side in sides], values)


def switch_settings(values: Mapping[str, str]) -> Disturb:
    """The same in the namespace of the virtual switches."""
    return _settings(lambda scene: [scene.switch], values)


def _settings(where: Callable[[Scene], list[str]], values: Mapping[str, str]) -> Disturb:
    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        names = where(scene)
        before = {name: netlink.run_in_namespace(name, partial(exchange, values)) for name in names}
        try:
            yield
        finally:
            for name, old in before.items():
                netlink.run_in_namespace(name, partial(exchange, old))

    return disturb


def machine_settings(values: Mapping[str, str]) -> Disturb:
    """Settings that only the machine as a whole has. How they were is on disk until they are put back."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        before = {name: (_SYS / name).read_text().strip() for name in values}
        LEFT.write_text(json.dumps({"boot": boot(), "before": before}))
        try:
            exchange(values)
            yield
        finally:
            exchange(before)
            LEFT.unlink()

    return disturb


def put_back_left() -> dict[str, str]:
    """Put back what a maker that was killed left changed; returns the settings, as they were before it."""
    try:
        told = json.loads(LEFT.read_text())
    except (FileNotFoundError, ValueError):  # ended before it was whole: nothing had been changed yet
        LEFT.unlink(missing_ok=True)
        return {}
    before: dict[str, str] = told["before"] if told["boot"] == boot() else {}
    exchange(before)
    LEFT.unlink()
    return before


def boot() -> str:
    """Which start of the machine this is: with the next one all settings are as they were."""
    return (_SYS / "kernel/random/boot_id").read_text().strip()


def exchange(values: Mapping[str, str]) -> dict[str, str]:
    """Write these and return what was there."""
    before = {}
    for name, value in values.items():
        path = _SYS / name
        before[name] = path.read_text().strip()
        path.write_text(value)
    return before
