"""Factors of guests and of network adapters with real drivers."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.labs import EXISTING_MACHINE_LABS, EXISTING_VM_LABS, LIBVIRT, QEMU
from vnetbench.study.workloads import DISRUPTION, FRAME_WORKLOAD_NAMES

ADAPTERS = (
    "virtio-net", "virtio-net-vhost", "vmxnet3", "e1000e", "e1000", "rtl8139", "igb", "vf", "macvtap",
)  # fmt: skip
GUEST_ROLES = ("guest-to-guest", "guest-to-host", "router", "bridge")

ADAPTER = Factor(
    "adapter",
    value_types.keywords(*ADAPTERS),
    unit="",
    default="virtio-net",
    description="Virtual network adapter of the guests, by the name of its hardware. `virtio-net-vhost`: "
    "virtio-net with packet processing in the host's kernel (vhost). `macvtap`: virtio-net on a macvtap "
    "of the host. `vf`: a virtual function of a host adapter (SR-IOV), through vfio. The lab `vsphere` has "
    "`vmxnet3`, `e1000e` and `e1000`.",
    examples=('["vmxnet3", "virtio-net", "e1000e", "e1000"]', '"vmxnet3"'),
    labs=(QEMU, *EXISTING_VM_LABS),
    phrase_template="{}",
    has_line_per_level=True,
)

GUEST_PAIRS = Factor(
    "guests",
    value_types.integers(1, 64),
    unit="1",
    default=1,
    description="Number of pairs of guests that run load at the same time.",
    examples=("[1, 2, 4, 8]", "2"),
    labs=(QEMU,),
    label="Pairs of guests",
    counted_noun="pair",
    should_not_lower_rate=True,
)

GUEST_ROLE = Factor(
    "role",
    value_types.keywords(*GUEST_ROLES),
    unit="",
    default="guest-to-guest",
    description="What the guests do. `guest-to-guest`: both endpoints are guests. `guest-to-host`: the "
    "second endpoint is on the host. `router` and `bridge`: both endpoints are on the host, and a guest "
    "between them forwards IP packets or frames from one of its two adapters to the other. Frame "
    "workloads need `router` or `bridge`; their endpoints are the guest's taps, so that only the guest "
    "is under test.",
    examples=('["guest-to-guest", "guest-to-host"]', '"router"'),
    # Sources and sinks of both have to be on the host.
    workload_defaults=dict.fromkeys((*FRAME_WORKLOAD_NAMES, DISRUPTION), "router"),
    labs=(QEMU,),
    phrase_template="{}",
)

VCPUS = Factor(
    "vcpus",
    value_types.integers(1, 64),
    unit="1",
    default=1,
    description="Virtual CPUs of every guest.",
    examples=("[1, 2]", "4"),
    labs=(QEMU,),
    label="vCPUs",
    counted_noun="vCPU",
    should_not_lower_rate=True,
)

VCPU_PIN = Factor(
    "vcpu_pin",
    value_types.thread_cpus(),
    unit="",
    default=None,
    description="Host CPUs of the vCPU threads. `any`: every CPU. `spread`: one CPU for each vCPU, in "
    "turn, guest by guest. `0-1`: these CPUs in turn. `0-1/2-3`: the first guest of a pair uses the CPUs "
    "before the slash, the second guest those after it.",
    examples=('["any", "spread"]', '"0-1/2-3"'),
    labs=(QEMU, LIBVIRT),
    level_if_unset="any",
    label="Placement of vCPUs",
    phrase_template="vCPUs: {}",
)

EMULATOR_PIN = Factor(
    "emulator_pin",
    value_types.emulator_cpus(),
    unit="",
    default=None,
    description="Host CPUs of QEMU's own threads and of vhost's threads. `any`: every CPU. `own`: the "
    "CPUs of the guest's vCPUs. `apart`: the CPUs that no vCPU uses. Or a CPU list. `own` and `apart` "
    "need `vcpu_pin`.",
    examples=('["any", "own", "apart"]', '"3"'),
    labs=(QEMU, LIBVIRT),
    level_if_unset="any",
    label="Placement of QEMU's threads",
    phrase_template="QEMU's threads: {}",
)

RX_RING = Factor(
    "rx_ring",
    value_types.integers(1, 65536),
    unit="1",
    default=None,
    description="Descriptors of each receive ring of the adapter.",
    examples=("[256, 1024, 4096]", "1024"),
    labs=(QEMU, *EXISTING_MACHINE_LABS),
    label="Receive ring",
    phrase_template="receive ring {}",
    should_not_lower_rate=True,
    knobs=("rx_ring",),
    knob_setting_order=2,
    knob_fix="request a size that the driver supports (ethtool -g shows the maximum), or remove rx_ring",
)

TX_RING = Factor(
    "tx_ring",
    value_types.integers(1, 65536),
    unit="1",
    default=None,
    description="Descriptors of each transmit ring of the adapter.",
    examples=("[256, 1024, 4096]", "1024"),
    labs=(QEMU, *EXISTING_MACHINE_LABS),
    label="Transmit ring",
    phrase_template="transmit ring {}",
    should_not_lower_rate=True,
    knobs=("tx_ring",),
    knob_setting_order=2,
    knob_fix="request a size that the driver supports (ethtool -g shows the maximum), or remove tx_ring",
)

COALESCE = Factor(
    "coalesce",
    value_types.durations(0, 0.1, "adaptive"),
    unit="s",
    default=None,
    description="Interrupt coalescing: how long the adapter collects packets before it interrupts, with "
    "a unit (`50 us`), for receive and transmit alike. `adaptive`: the adapter decides. "
    "0: every packet interrupts.",
    examples=('["0 s", "50 us", "adaptive"]', '"20 us"'),
    labs=(QEMU, *EXISTING_MACHINE_LABS),
    label="Coalescing",
    phrase_template="coalescing {}",
    knobs=("coalesce",),
    knob_setting_order=2,
    knob_fix="request a value that the driver supports (ethtool -c shows it), or remove coalesce",
)

IRQ_PIN = Factor(
    "irq_pin",
    value_types.interrupt_cpus(),
    unit="",
    default=None,
    description="CPUs of the endpoint that take its adapter's interrupts and do its receive "
    "processing. `spread`: one CPU for each interrupt, in turn. Or a CPU list: all of its CPUs for every "
    "interrupt.",
    examples=('["spread", "0", "1"]', '"0-1"'),
    labs=(QEMU, *EXISTING_MACHINE_LABS),
    label="Placement of interrupts",
    phrase_template="interrupts: {}",
    knobs=("irq_cpus",),
    knob_setting_order=2,
    knob_fix="name CPUs that the endpoint has, stop irqbalance on the endpoint, or remove irq_pin",
)

LRO = Factor(
    "lro",
    value_types.on_off(),
    unit="",
    default=None,
    description="Large receive offload: the adapter joins packets of one stream before it passes them "
    "to the kernel.",
    examples=('["on", "off"]', "false"),
    labs=(QEMU, *EXISTING_MACHINE_LABS),
    label="LRO",
    should_not_lower_rate=True,
    knobs=("lro",),
    knob_fix="exclude this treatment with [[exclude]], because not every adapter has LRO",
)

# The bench sets the knobs of an adapter in the order of this table.
GUEST_FACTORS = (
    ADAPTER, GUEST_PAIRS, GUEST_ROLE, VCPUS, VCPU_PIN, EMULATOR_PIN, RX_RING, TX_RING, COALESCE, IRQ_PIN, LRO,
)  # fmt: skip
