"""Factors of the testbed: interfaces, CPUs, links and virtual switches."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.cpu_quotas import vm_cpu_quotas
from vnetbench.study.factors.factor import DoctorTreatment, Factor
from vnetbench.study.labs import EXISTING_MACHINE_LABS, NETNS, QEMU
from vnetbench.study.workloads import FRAME_WORKLOAD_NAMES, SOCKET_WORKLOAD_NAMES, UDP_STREAM

AUTO = "auto"

MIN_IPV6_MTU = 1280
"""Smallest MTU of a link that carries IPv6 (RFC 8200, section 5)."""

MIN_LINK_RATE_BPS, MAX_LINK_RATE_BPS = 1000, 34 * 10**9
"""Rates of a shaper; the maximum is a little below what tc's 32-bit field of bytes per second can hold."""

NO_IMPAIRMENT = "none"
_IMPAIRED_LINK_DESCRIPTION = (
    " The impaired link is the uplink. Without `testbed.uplink`, the bench gives each VM of a pair its own "
    "switch and joins the two switches by such a link. With `direct` and `router`, it is the link to the "
    "second VM."
)
_EXCLUDE_FIX = "exclude this treatment with [[exclude]]"

MTU = Factor(
    "mtu",
    value_types.integers(576, 65535, unit="B"),
    unit="B",
    default=1500,
    description="MTU in bytes of every interface on the path. The ports of the vSwitch use the same MTU "
    "unless you set `testbed.vswitch_mtu`. Before the load starts, the bench proves that packets of this "
    "size pass in both directions.",
    examples=("[1500, 9000]", "9000"),
    label="MTU",
    phrase_template="MTU {}",
    should_not_lower_rate=True,
    is_testbed_setting=True,
    doctor_treatments=(DoctorTreatment("mtu 9000", {"mtu": 9000}),),
    knobs=("mtu",),
    knob_setting_order=4,
    knob_fix="choose an MTU that the endpoint's adapter allows",
)

IP_VERSION = Factor(
    "ip_version",
    value_types.versions(4, 6),
    unit="",
    default="4",
    description="IP version of all streams. IPv6 needs an MTU of at least 1280.",
    examples=("[4, 6]", "6"),
    label="IP version",
    doctor_treatments=(DoctorTreatment("ip_version 6", {"ip_version": "6"}),),
    phrase_template="IPv{}",
)

CHECKSUM_OFFLOAD = Factor(
    "checksum_offload",
    value_types.on_off(),
    unit="",
    default=None,
    description="Transmit and receive checksum offload of the VMs' interfaces.",
    examples=('["on", "off"]', "false"),
    should_not_lower_rate=True,
    is_testbed_setting=True,
    doctor_treatments=(DoctorTreatment("checksum_offload off", {"checksum_offload": "off", "tso": "off"}),),
    knobs=("tx_checksum", "rx_checksum"),
    knob_fix=f"{_EXCLUDE_FIX}, because many drivers cannot change this offload",
)

GSO = Factor(
    "gso",
    value_types.on_off(),
    unit="",
    default=None,
    description="Generic segmentation offload of the VMs' interfaces: the kernel splits large segments "
    "just before the driver. With `tso` on it changes nothing for TCP, because the driver then takes "
    "large segments anyway.",
    examples=('["on", "off"]', "false"),
    label="GSO",
    should_not_lower_rate=True,
    is_testbed_setting=True,
    doctor_treatments=(DoctorTreatment("tso, gso, gro off", {"tso": "off", "gso": "off", "gro": "off"}),),
    knobs=("gso",),
    knob_fix=f"{_EXCLUDE_FIX}, because macvlan cannot change this offload",
)

TSO = Factor(
    "tso",
    value_types.on_off(),
    unit="",
    default=None,
    description="TCP segmentation offload of the VMs' interfaces. The kernel turns it off when "
    "scatter-gather or `checksum_offload` is off.",
    examples=('["on", "off"]', "true"),
    label="TSO",
    should_not_lower_rate=True,
    is_testbed_setting=True,
    knobs=("tso",),
    knob_fix=f"{_EXCLUDE_FIX}, because TSO needs checksum_offload and macvlan cannot change TSO",
)

USO = Factor(
    "uso",
    value_types.on_off(),
    unit="",
    default=None,
    description="UDP segmentation offload of the VMs' interfaces. `off`: the kernel splits the messages "
    "of `udp_gso` just before the driver, and every datagram crosses the vSwitch as a packet.",
    examples=('["on", "off"]', "false"),
    label="USO",
    should_not_lower_rate=True,
    is_testbed_setting=True,
    doctor_treatments=(DoctorTreatment("uso off", {"udp_gso": "on", "uso": "off"}, UDP_STREAM),),
    knobs=("uso",),
    knob_fix=f"{_EXCLUDE_FIX}, because USO needs checksum_offload and Linux 4.18 or newer",
)

GRO = Factor(
    "gro",
    value_types.on_off(),
    unit="",
    default=None,
    description="Generic receive offload of the VMs' interfaces: the kernel joins packets of one stream "
    "before the network stack.",
    examples=('["on", "off"]', "false"),
    label="GRO",
    should_not_lower_rate=True,
    is_testbed_setting=True,
    knobs=("gro",),
    knob_fix=_EXCLUDE_FIX,
)

VM_PAIRS = Factor(
    "pairs",
    value_types.integers(1, 64),
    unit="1",
    default=1,
    description="Number of pairs of VMs that run load at the same time.",
    examples=('"1, 2, 4 .. 8"', "[1, 8]"),
    labs=(NETNS,),
    label="Pairs of VMs",
    is_testbed_setting=True,
    doctor_treatments=(DoctorTreatment("pairs 8", {"pairs": 8}),),
    x_axis_rank=2,
    counted_noun="pair",
    should_not_lower_rate=True,
)

VM_CPUS = Factor(
    "cpus",
    value_types.vm_cpus(),
    unit="",
    default=None,
    description="CPUs that a VM's processes may use. `any`: every CPU. `N each`: the next N CPUs for "
    "each VM in turn, starting again at the first CPU when all are assigned. `0-1`: these CPUs for both "
    "VMs of every pair. `0/1`: the first VM of a pair uses the CPUs before the slash, the second VM "
    "those after it.",
    examples=('["any", "1 each"]', '"0-1"', '"0/1"'),
    level_if_unset="any",
    labs=(NETNS, *EXISTING_MACHINE_LABS),
    works_with_iperf3_server_as_peer=True,
    label="VM's CPUs",
    phrase_template="CPUs {}",
    knob_fix="name CPUs that this machine lets you use",
)

CPU_QUOTA = Factor(
    "cpu_quota",
    vm_cpu_quotas(0.01, 1024, "none"),
    unit="1",
    default=None,
    description="CPU time that the processes of each VM may use, in percent of one CPU: `50 %` is half a "
    "CPU, `200 %` is two. A VM that has used its quota stops until the next period of 100 ms (a control "
    "group with a quota). `none`: no quota. `85 %/none`: the first VM of a pair gets the quota before the "
    "slash, the second VM the one after it. Needs root; a quota above this machine's CPUs is refused.",
    examples=('["none", "200 %", "50 %"]', '"50 %"'),
    workloads=SOCKET_WORKLOAD_NAMES,
    labs=(NETNS,),
    label="VM's CPU quota",
    needs_root=True,
    doctor_treatments=(DoctorTreatment("cpu_quota", {"cpu_quota": 0.5}),),
    phrase_template="CPU quota {}",
)

RECEIVE_PROCESSING_CPUS = Factor(
    "irq_cpus",
    value_types.receive_processing_cpus(),
    unit="",
    default=None,
    description="CPUs for the receive processing of the VMs' interfaces (receive packet steering, RPS). "
    "`off`: no RPS; the sender's CPU processes the packet. `own`: the VM's CPUs. `apart`: all CPUs "
    "except the VM's. `spread`: every CPU. Or a CPU list. `apart` needs `cpus`; without it `own` means "
    "every CPU.",
    examples=('["off", "own", "apart", "spread"]', '"0-1"'),
    labs=(NETNS,),
    label="Receive processing on",
    is_testbed_setting=True,
    needs_root=True,
    doctor_treatments=(DoctorTreatment("irq_cpus (RPS)", {"irq_cpus": "spread"}),),
    knob_setting_order=3,
    phrase_template="receive processing {}",
    knobs=("rps_cpus",),
    knob_fix="run as root (sudo), because only root can set RPS, or remove irq_cpus",
)

QUEUES = Factor(
    "queues",
    value_types.integers(1, 64),
    unit="1",
    default=None,
    description="Transmit and receive queues of the VMs' interfaces.",
    examples=("[1, 4]", '"1, 2, 4 .. 8"'),
    counted_noun="queue",
    should_not_lower_rate=True,
    is_testbed_setting=True,
    doctor_treatments=(DoctorTreatment("queues", {"queues": 1}),),
    x_axis_rank=5,
    knobs=("queues",),
    knob_setting_order=1,
    knob_fix="request no more queues than the adapter has (veth: one for each CPU)",
)

LINK_RATE = Factor(
    "link_rate",
    value_types.bit_rates(MIN_LINK_RATE_BPS, MAX_LINK_RATE_BPS, "none"),
    unit="bit/s",
    default=None,
    description="Rate to which `testbed.shaper` shapes the uplink (`testbed.uplink = true`) or else "
    "every VM's interface. `none`: no shaping.",
    examples=('["none", "10 Gbit/s"]', '"1 Gbit/s"'),
    labs=(NETNS, QEMU),
    phrase_template="link rate {}",
    level_if_unset="none",
    is_testbed_setting=True,
    doctor_treatments=(
        DoctorTreatment("link_rate by tbf", {"link_rate": 10**9}),
        DoctorTreatment("link_rate by htb", {"link_rate": 10**9}, shaper="htb"),
    ),
    x_axis_rank=6,
    should_not_lower_rate=True,
)

LINK_QUEUE = Factor(
    "link_queue",
    value_types.durations(0.00001, 60, "auto", "codel", "fq_codel"),
    unit="s",
    default=None,
    description="Queue in front of a link with `link_rate`. A duration: a FIFO that holds what the link "
    'sends in this time (with `testbed.shaper = "tbf"`), so that the last packet of a full queue waits '
    "this long. `auto`: a FIFO of about 5 ms. `codel` and `fq_codel`: these queueing disciplines with "
    "the kernel's settings, if the kernel has them.",
    examples=('"5 ms, 10 ms, 20 ms .. 160 ms"', '["100 ms", "fq_codel"]'),
    labs=(NETNS, QEMU),
    phrase_template="queue {}",
    level_if_unset=AUTO,
    doctor_treatments=(
        DoctorTreatment("link_queue fq_codel", {"link_rate": 10**9, "link_queue": "fq_codel"}),
    ),
)

LINK_DELAY = Factor(
    "link_delay",
    value_types.durations(0.00001, 1, NO_IMPAIRMENT),
    unit="s",
    default=None,
    description="One-way delay of the link, the same in both directions: the round trip grows by twice "
    "this time. The delay comes after the shaping of `link_rate`. The bench uses netem if the kernel has "
    "it and the study impairs the link in no other way, else its own delay line; the trial records "
    "which. The bench measures the idle round trip before the load starts, and refuses the treatment if "
    "the link does not add the delay." + _IMPAIRED_LINK_DESCRIPTION,
    examples=('["none", "1 ms", "20 ms"]', '"20 ms"'),
    labs=(NETNS, QEMU),
    phrase_template="delay {}",
    level_if_unset=NO_IMPAIRMENT,
    doctor_treatments=(DoctorTreatment("link_delay", {"link_delay": 0.001}),),
)

LINK_JITTER = Factor(
    "link_jitter",
    value_types.durations(0.00001, 1, NO_IMPAIRMENT),
    unit="s",
    default=None,
    description="Largest difference between `link_delay` and the delay of a packet, in both directions "
    "and uniformly distributed. Packets stay in order: a packet that would overtake another leaves right "
    "behind it.",
    examples=('["none", "500 us"]', '"2 ms"'),
    labs=(NETNS, QEMU),
    phrase_template="jitter {}",
    level_if_unset=NO_IMPAIRMENT,
)

LINK_LOSS = Factor(
    "link_loss",
    value_types.percentages(0, 0.5),
    unit="1",
    default=None,
    description="Share of the packets that the link drops, independently of each other, in both "
    "directions. The delay line splits the large packets of TCP into segments and drops single segments.",
    examples=('["0 %", "0.1 %", "1 %"]', '"0.1 %"'),
    labs=(NETNS, QEMU),
    phrase_template="loss {}",
    level_if_unset=0,
    doctor_treatments=(
        DoctorTreatment("link_loss, link_reordering", {"link_loss": 0.001, "link_reordering": 0.001}),
    ),
)

LINK_REORDERING = Factor(
    "link_reordering",
    value_types.percentages(0, 0.5),
    unit="1",
    default=None,
    description="Share of the packets that the link delays by another 250 µs, so that later packets "
    "arrive first. Segments are treated as with `link_loss`.",
    examples=('["0 %", "1 %"]', '"0.5 %"'),
    labs=(NETNS, QEMU),
    phrase_template="reordering {}",
    level_if_unset=0,
)

LINK_IMPAIRMENT_FACTORS = (LINK_DELAY, LINK_JITTER, LINK_LOSS, LINK_REORDERING)
"""Factors that impair the packets of a link."""

VSWITCH = Factor(
    "vswitch",
    value_types.keywords("bridge", "direct", "macvlan", "router", "openvswitch"),
    unit="",
    default="bridge",
    description="What connects the VMs. `bridge`: a Linux bridge. `direct`: one link between the two VMs "
    "of a pair and no switch. `macvlan`: macvlan interfaces of one parent. `router`: a namespace that "
    "forwards IP packets between two networks, one for each VM of a pair. `openvswitch`: the "
    "distribution's Open vSwitch with its userspace datapath, which only handles complete packets with "
    "checksums. The VMs then have `checksum_offload` off, and with it `tso` and `uso`.",
    examples=('["bridge", "macvlan"]', '"openvswitch"'),
    labs=(NETNS,),
    label="vSwitch",
    is_testbed_setting=True,
    doctor_treatments=tuple(
        DoctorTreatment(f"vswitch {level}", {"vswitch": level})
        for level in ("direct", "macvlan", "router", "openvswitch")
    ),
    phrase_template="{}",
)

DEVICE_CPUS = Factor(
    "device_cpus",
    value_types.device_cpus(),
    unit="",
    default=AUTO,
    description="CPUs for the packet processing of the device under test, in threads of its own "
    "(threaded NAPI of its ports, or the threads of Open vSwitch). `apart`: the CPUs that `cpus` does "
    "not give to the tester. Without `cpus` the tester, which generates and counts frames, uses the "
    "first half of all CPUs and the device the second half. `any`: no threads of its own. The kernel "
    "then processes a frame on the CPU that generates it, so that the device slows the generator down "
    "instead of losing frames. `auto`: `apart` if this machine allows it (root, two CPUs, Linux 6.9), "
    "else `any`; the trial records the choice and its reason. Or a CPU list.",
    examples=('["apart", "any"]', '"2-3"'),
    workloads=FRAME_WORKLOAD_NAMES,
    labs=(NETNS,),
    label="Device's CPUs",
    phrase_template="device on CPUs {}",
    knob_fix="run as root on Linux 6.9 or newer, or write device_cpus = any",
)

# The bench sets the offloads in the order of this table: the kernel derives TSO and USO from those before.
TESTBED_FACTORS = (
    MTU, IP_VERSION, CHECKSUM_OFFLOAD, GSO, TSO, USO, GRO, VM_PAIRS, VM_CPUS, CPU_QUOTA,
    RECEIVE_PROCESSING_CPUS, QUEUES, LINK_RATE, LINK_QUEUE, *LINK_IMPAIRMENT_FACTORS, VSWITCH, DEVICE_CPUS,
)  # fmt: skip
