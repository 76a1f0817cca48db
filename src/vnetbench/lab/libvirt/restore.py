"""Restore a VM from its journal: its adapter, its placement on CPUs, and whether it runs."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from vnetbench.lab.domains.journal import DomainRecord
from vnetbench.lab.libvirt import domains
from vnetbench.lab.libvirt.hardware import find_adapter, read_hardware, read_mac, replace_adapter
from vnetbench.libvirt_connection import import_libvirt, is_missing_domain, open_connection

ADAPTER_KEY, RUNNING_KEY, PINNING_KEY = "adapter", "running_hardware", "pinning"
"""Settings in the journal: the `<interface>` of the definition, the hardware with which the VM ran (null if
it was shut down), and the CPUs of its threads."""


def restore_domain(record: DomainRecord) -> None:
    """Restore what a record holds. A VM that no longer exists needs nothing.

    Raises:
        BenchError: libvirt refuses a step, or the VM does not shut down.
    """
    with closing(open_connection(record.connection, read_only=False)) as connection:
        libvirt = import_libvirt(record.connection)
        with domains.errors_of_domain(str(record)):
            try:
                domain = connection.lookupByUUIDString(record.identity)
            except libvirt.libvirtError as error:
                if is_missing_domain(error):
                    return
                raise
            _restore(domain, record)


def _restore(domain: Any, record: DomainRecord) -> None:
    originals = record.originals
    if pinning := originals.get(PINNING_KEY):
        _restore_pinning(domain, pinning)
    if ADAPTER_KEY not in originals:
        return
    adapter = ElementTree.fromstring(originals[ADAPTER_KEY])
    _restore_definition(domain, adapter)
    running_hardware = originals[RUNNING_KEY]
    if domain.isActive() and _running_hardware(domain, adapter) != running_hardware:
        domains.shut_down(domain, record.domain)
    if running_hardware is not None and not domain.isActive():
        domain.create()


def _restore_definition(domain: Any, adapter: Element) -> None:
    definition = domains.read_definition(domain)
    now = find_adapter(definition, read_mac(adapter), domain.name())
    if ElementTree.canonicalize(ElementTree.tostring(now), strip_text=True) != ElementTree.canonicalize(
        ElementTree.tostring(adapter), strip_text=True
    ):
        replace_adapter(definition, adapter)
        domains.define(domain, definition)


def _restore_pinning(domain: Any, pinning: dict[str, Any]) -> None:
    """Restore the CPUs of a domain, unless it has been restarted: a start takes them from its definition."""
    if domain.isActive() and domain.ID() == pinning["id"]:
        domains.pin(domain, [frozenset(cpus) for cpus in pinning["vcpus"]], frozenset(pinning["emulator"]))


def _running_hardware(domain: Any, adapter: Element) -> dict[str, str]:
    running = domains.read_running_state(domain)
    return read_hardware(find_adapter(running, read_mac(adapter), domain.name()))
