"""The section `[[testbed.host]]` of a study file: an existing machine."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.file import host_value_types
from vnetbench.study.file.keys import StudyKey, make_section
from vnetbench.study.model import HostSpec

_HOST = HostSpec("")

HOST_SECTION = make_section(
    "testbed.host",
    "A machine of the lab `hosts`, with one such heading each. Hosts with `ssh` or `local` form pairs in the "
    "order of the file; the first of a pair sends in the direction forward. Or one host only has an `iperf3` "
    "server, and the other endpoint of every stream is the machine that the bench runs on.",
    StudyKey(
        "name",
        host_value_types.host_names(),
        "",
        "Name of the host in the results.",
        '"web-01"',
        required=True,
    ),
    StudyKey(
        "ssh",
        host_value_types.ssh_destinations(),
        _HOST.ssh,
        "SSH destination of the host. The bench uses your OpenSSH client with its configuration, keys, agent "
        "and known hosts. It copies its agent to the host and removes it after the campaign. To set knobs, "
        "it needs root there.",
        '"root@web-01"',
    ),
    StudyKey(
        "iperf3",
        host_value_types.iperf3_servers(),
        _HOST.iperf3,
        "Address of the host's iperf3 server. The bench copies nothing to this machine.",
        '"192.0.2.7:5201"',
    ),
    StudyKey(
        "local",
        value_types.booleans(),
        _HOST.local,
        "`true`: the host is the machine that the bench runs on. With an iperf3 server you can leave this "
        "host out; its name is then `here`.",
        "true",
    ),
    StudyKey(
        "interface",
        host_value_types.interface_names(),
        _HOST.interface,
        "Interface of the load. Without it, the system's routes decide. With frame workloads, two hosts can "
        "be two interfaces of one machine, with the device under test between them.",
        '"ens192"',
    ),
    StudyKey(
        "address",
        host_value_types.ip_addresses(),
        _HOST.address,
        "The host's own address for the load. Without it, the bench uses the address of the interface, or "
        "the one that the system's routes choose. Frames between two interfaces of one machine need no "
        "address: they use 198.18.0.0/15.",
        '"192.0.2.1"',
    ),
    StudyKey(
        "next_hop",
        host_value_types.mac_addresses(),
        _HOST.next_hop,
        "Destination MAC address of the host's frames. Without it, the address of the pair's other "
        "interface, as a bridge needs it. For a router under test, write the router's own address on this "
        "link.",
        '"52:54:00:12:34:56"',
    ),
)
"""The keys of a `[[testbed.host]]`, which a study can have several times."""
