"""The section `[[testbed.host]]` of a study file: a machine that exists."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.file import host_value_types
from vnetbench.study.file.keys import StudyKey, make_section
from vnetbench.study.model import HostSpec

_HOST = HostSpec("")

HOST_SECTION = make_section(
    "testbed.host",
    "A machine of the lab `hosts`; stands once for each. Reached by `ssh` or `local` they make pairs in the "
    "order of the file: the first of a pair sends when the direction is forward. Or one of them only has an "
    "`iperf3` server, and the other end of every stream is the machine that the bench runs on.",
    StudyKey(
        "name",
        host_value_types.host_names(),
        "",
        "What it is called in the results.",
        '"web-01"',
        required=True,
    ),
    StudyKey(
        "ssh",
        host_value_types.ssh_destinations(),
        _HOST.ssh,
        "How `ssh` reaches it: by the user's own OpenSSH client, with its configuration, keys, agent and "
        "known hosts. The agent is put there for the campaign and removed at its end. Knobs need root.",
        '"root@web-01"',
    ),
    StudyKey(
        "iperf3",
        host_value_types.iperf3_servers(),
        _HOST.iperf3,
        "Where its iperf3 server listens. Nothing else is asked of this machine, and nothing is put on it.",
        '"192.0.2.7:5201"',
    ),
    StudyKey(
        "local",
        value_types.booleans(),
        _HOST.local,
        "`true`: it is the machine that the bench runs on, which towards an iperf3 server is called `here` "
        "without such a host.",
        "true",
    ),
    StudyKey(
        "interface",
        host_value_types.interface_names(),
        _HOST.interface,
        "The interface that the load goes through. Without it the system's routes decide. With frames two "
        "hosts may be two interfaces of one machine, with the device under test between them.",
        '"ens192"',
    ),
    StudyKey(
        "address",
        host_value_types.ip_addresses(),
        _HOST.address,
        "Its own address for the load. Without it the interface's, or what the system's routes choose. "
        "Frames from one interface of a machine to another need none: they come from 198.18.0.0/15 then.",
        '"192.0.2.1"',
    ),
    StudyKey(
        "next_hop",
        host_value_types.mac_addresses(),
        _HOST.next_hop,
        "The MAC address that its frames are sent to: that of the pair's other interface, as a bridge wants "
        "it, unless a router is tested, whose own on this side has to stand here.",
        '"52:54:00:12:34:56"',
    ),
)
"""The keys of a `[[testbed.host]]`, which may stand several times."""
