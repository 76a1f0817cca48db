"""The factors of real adapters and of the guests that have them."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.labs import HOSTS, QEMU
from vnetbench.study.workloads import FRAME_WORKLOADS

ADAPTERS = (
    "virtio-net", "virtio-net-vhost", "vmxnet3", "e1000e", "e1000", "rtl8139", "igb", "vf", "macvtap",
)  # fmt: skip
ROLES = ("guest-to-guest", "guest-to-host", "router", "bridge")

GUEST_FACTORS = (
    Factor(
        "adapter",
        value_types.keywords(*ADAPTERS),
        "",
        "virtio-net",
        "The guests' virtual network adapter, by the name of its hardware. `virtio-net-vhost`: virtio-net "
        "whose packets the host's kernel moves. `macvtap`: virtio-net on a macvtap of the host. `vf`: a "
        "virtual function of an adapter of the host (SR-IOV), by vfio.",
        ('["vmxnet3", "virtio-net", "e1000e", "e1000"]', '"vmxnet3"'),
        labs=(QEMU,),
    ),
    Factor(
        "guests",
        value_types.integers(1, 64),
        "1",
        1,
        "Pairs of guests at work at once.",
        ("[1, 2, 4, 8]", "2"),
        labs=(QEMU,),
    ),
    Factor(
        "role",
        value_types.keywords(*ROLES),
        "",
        "guest-to-guest",
        "What the guests do. `guest-to-guest`: both ends of a stream are guests. `guest-to-host`: the second "
        "end is on the host. `router` and `bridge`: both ends are on the host, and the guest between them "
        "forwards IP packets or frames from one of its two adapters to the other. With frames it is one of "
        "these two, and the ends are its taps themselves, so that the guest alone is tested.",
        ('["guest-to-guest", "guest-to-host"]', '"router"'),
        workload_defaults=dict.fromkeys(FRAME_WORKLOADS, "router"),
        labs=(QEMU,),
    ),
    Factor(
        "vcpus",
        value_types.integers(1, 64),
        "1",
        1,
        "Virtual CPUs of every guest.",
        ("[1, 2]", "4"),
        labs=(QEMU,),
    ),
    Factor(
        "vcpu_pin",
        value_types.thread_cpus(),
        "",
        None,
        "The host's CPU for each vCPU thread. `any`: all may run everywhere. `spread`: one CPU for each, in "
        "turn, guest by guest. `0-1`: those CPUs in turn. `0-1/2-3`: the first guest of a pair takes those "
        "before the stroke, the second those after it.",
        ('["any", "spread"]', '"0-1/2-3"'),
        labs=(QEMU,),
    ),
    Factor(
        "emulator_pin",
        value_types.emulator_cpus(),
        "",
        None,
        "The host's CPUs for QEMU's own threads, and for vhost's. `any`: all. `own`: those of the guest's "
        "vCPUs. `apart`: those that no vCPU has. Or a CPU list. `own` and `apart` need `vcpu_pin`.",
        ('["any", "own", "apart"]', '"3"'),
        labs=(QEMU,),
    ),
    Factor(
        "irq_pin",
        value_types.interrupt_cpus(),
        "",
        None,
        "The endpoint's own CPUs that take its adapter's interrupts and so do its receive processing. "
        "`spread`: one CPU for each interrupt, in turn. Or a CPU list: all of its CPUs for every interrupt.",
        ('["spread", "0", "1"]', '"0-1"'),
        labs=(QEMU, HOSTS),
    ),
    Factor(
        "rx_ring",
        value_types.integers(1, 65536),
        "1",
        None,
        "Descriptors of each receive ring of the adapter.",
        ("[256, 1024, 4096]", "1024"),
        labs=(QEMU, HOSTS),
    ),
    Factor(
        "tx_ring",
        value_types.integers(1, 65536),
        "1",
        None,
        "Descriptors of each transmit ring of the adapter.",
        ("[256, 1024, 4096]", "1024"),
        labs=(QEMU, HOSTS),
    ),
    Factor(
        "coalesce",
        value_types.durations(0, 0.1, "adaptive"),
        "s",
        None,
        "How long the adapter gathers packets before it interrupts, receiving and transmitting alike; "
        "`adaptive`: it decides by itself; 0: every packet interrupts.",
        ('["0 s", "50 us", "adaptive"]', '"20 us"'),
        labs=(QEMU, HOSTS),
    ),
    Factor(
        "lro",
        value_types.on_off(),
        "",
        None,
        "Large receive offload: the adapter joins packets of one stream before it hands them over.",
        ('["on", "off"]', "false"),
        labs=(QEMU, HOSTS),
    ),
)
