"""Read the domains of a libvirt URI, through a read-only connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from vnetbench.audit.duplicates import mark_duplicate_addresses
from vnetbench.audit.files.libvirt import add_domain, parse_xml
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.live.time_limit import yield_within_time_limit
from vnetbench.errors import BenchError
from vnetbench.libvirt_connection import format_error, import_libvirt, is_missing_domain, open_connection


class DomainDocument(NamedTuple):
    """The XML of a domain, or why it could not be read."""

    name: str
    xml: str | BenchError


def read_libvirt_uri(target: str) -> Iterator[Inventory | BenchError]:
    """Yield the inventory of a connection, and the errors of domains that could not be read.

    Args:
        target: A URI, and `#NAME` behind it for one domain: `qemu:///system#web-01`.

    Raises:
        BenchError: the connection is refused, or has no such domain.
    """
    uri, _, name = target.partition("#")
    inventory = Inventory(target)
    for document in yield_within_time_limit(_read_documents(uri, name), target):
        try:
            if isinstance(document.xml, BenchError):
                raise document.xml
            add_domain(inventory, parse_xml(document.xml, f"{uri}#{document.name}"))
        except BenchError as error:
            yield error
    if inventory.objects:
        mark_duplicate_addresses([inventory])
        yield inventory


def _read_documents(uri: str, name: str) -> Iterator[DomainDocument]:
    """Yield the documents of one domain, or of all; of a running domain as it runs."""
    connection = open_connection(uri, read_only=True)
    libvirt = import_libvirt(uri)
    try:
        # libvirt lists domains in any order, and of two equal MAC addresses the later one is the finding.
        domains = (
            [connection.lookupByName(name)]
            if name
            else sorted(connection.listAllDomains(), key=lambda each: str(each.name()))
        )
        if not domains:
            raise BenchError(
                "the connection has no domain",
                where=uri,
                fix="check the URI: qemu:///system and qemu:///session have different domains",
            )
        # libvirt lists the domains in any order; findings must not depend on it
        for domain in sorted(domains, key=lambda domain: domain.name()):
            yield _read_document(libvirt, uri, domain)
    except libvirt.libvirtError as error:
        if is_missing_domain(error):
            raise _missing_domain(uri, name) from None
        raise BenchError(
            f"libvirt cannot list the domains: {format_error(error)}",
            where=uri,
            fix=f"check that this works: virsh -r -c '{uri}' list --all",
        ) from None
    finally:
        connection.close()


def _read_document(libvirt: Any, uri: str, domain: Any) -> DomainDocument:
    name = domain.name()
    try:
        return DomainDocument(name, domain.XMLDesc(0))
    except libvirt.libvirtError as error:
        if is_missing_domain(error):
            return DomainDocument(name, _missing_domain(uri, name))
        return DomainDocument(
            name,
            BenchError(
                f"libvirt cannot describe the domain: {format_error(error)}",
                where=f"{uri}#{name}",
                fix=f"check that this works: virsh -r -c '{uri}' dumpxml '{name}'",
            ),
        )


def _missing_domain(uri: str, name: str) -> BenchError:
    return BenchError(
        "there is no such domain, or it was removed during the audit",
        where=f"{uri}#{name}",
        fix=f"list the domains: virsh -r -c '{uri}' list --all",
    )
