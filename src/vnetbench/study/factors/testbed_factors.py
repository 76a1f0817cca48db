"""The factors of the testbed: its interfaces, CPUs, links and virtual switches."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.labs import HOSTS, NETNS, QEMU
from vnetbench.study.workloads import FRAME_WORKLOADS, SOCKET_WORKLOADS

AUTO = "auto"

MIN_IPV6_MTU = 1280
"""A link of a smaller MTU carries no IPv6 (RFC 8200, section 5)."""

LINK_IMPAIRMENTS = ("link_delay", "link_jitter", "link_loss", "link_reordering")
"""What a link does to packets beside carrying them at a rate."""
NO_IMPAIRMENT = "none"
_IMPAIRED = (
    " The link is the uplink; without `testbed.uplink` the VMs of a pair get switches of their own with it "
    "between them, and with `direct` and `router` it is the link that leads to side b."
)

TESTBED_FACTORS = (
    Factor(
        "mtu",
        value_types.integers(576, 65535, unit="B"),
        "B",
        1500,
        "MTU in bytes of every interface on the path. The ports of the vSwitch follow it unless "
        "`testbed.vswitch_mtu` is set. It is proved both ways before load is sent.",
        ("[1500, 9000]", "9000"),
    ),
    Factor(
        "ip_version",
        value_types.versions(4, 6),
        "",
        "4",
        "The version of IP that all streams run over. IPv6 wants an MTU of 1280 at least.",
        ("[4, 6]", "6"),
    ),
    Factor(
        "tso",
        value_types.on_off(),
        "",
        None,
        "TCP segmentation offload of the VMs' interfaces. The kernel has it off wherever scatter-gather or "
        "`checksum_offload` is off.",
        ('["on", "off"]', "true"),
    ),
    Factor(
        "gso",
        value_types.on_off(),
        "",
        None,
        "Generic segmentation offload of the VMs' interfaces: large segments are cut just before the driver. "
        "With `tso` on it changes nothing for TCP, since the driver takes large segments anyway.",
        ('["on", "off"]', "false"),
    ),
    Factor(
        "uso",
        value_types.on_off(),
        "",
        None,
        "UDP segmentation offload of the VMs' interfaces. Off: what a source hands over with `udp_gso` is "
        "cut just before the driver, and every datagram crosses the vSwitch as a packet of its own.",
        ('["on", "off"]', "false"),
    ),
    Factor(
        "gro",
        value_types.on_off(),
        "",
        None,
        "Generic receive offload of the VMs' interfaces: packets of one stream are joined before the stack.",
        ('["on", "off"]', "false"),
    ),
    Factor(
        "checksum_offload",
        value_types.on_off(),
        "",
        None,
        "Transmit and receive checksum offload of the VMs' interfaces.",
        ('["on", "off"]', "false"),
    ),
    Factor(
        "pairs",
        value_types.integers(1, 64),
        "1",
        1,
        "Pairs of VMs at work at once.",
        ('"1, 2, 4 .. 8"', "[1, 8]"),
        labs=(NETNS,),
    ),
    Factor(
        "cpus",
        value_types.vm_cpus(),
        "",
        None,
        "CPUs that a VM's processes may use. `any`: all of them. `N each`: every VM in turn gets N CPUs, "
        "from the first on, starting over when all are given. `0-1`: both VMs of every pair use these. "
        "`0/1`: the first VM of a pair uses those before the stroke, the second those after it.",
        ('["any", "1 each"]', '"0-1"', '"0/1"'),
        labs=(NETNS, HOSTS),
    ),
    Factor(
        "cpu_quota",
        value_types.percentages(0.01, 1024, "none"),
        "1",
        None,
        "CPU time that the processes of each VM may use, in percent of one CPU: `50 %` is half a CPU, "
        "`200 %` two. Where it is used up they stand still until the next period of 100 ms (a control group "
        "with a quota). `none`: no quota. It wants root, and is refused beyond the CPUs of this machine.",
        ('["none", "200 %", "50 %"]', '"50 %"'),
        SOCKET_WORKLOADS,
        labs=(NETNS,),
    ),
    Factor(
        "irq_cpus",
        value_types.receive_cpus(),
        "",
        None,
        "CPUs that do the receive processing of the VMs' interfaces (receive packet steering, RPS). `off`: "
        "RPS is off, the sender's CPU goes on. `own`: the VM's own CPUs. `apart`: the CPUs that are not the "
        "VM's. `spread`: all CPUs. Or a CPU list. `apart` needs CPUs given by `cpus`; without them `own` "
        "is all CPUs.",
        ('["off", "own", "apart", "spread"]', '"0-1"'),
        labs=(NETNS,),
    ),
    Factor(
        "queues",
        value_types.integers(1, 64),
        "1",
        None,
        "Transmit and receive queues of the VMs' interfaces.",
        ("[1, 4]", '"1, 2, 4 .. 8"'),
    ),
    Factor(
        "link_rate",
        # What tc's 32-bit field of bytes per second holds is a little more.
        value_types.bit_rates(1000, 34 * 10**9, "none"),
        "bit/s",
        None,
        "Rate to which the uplink (`testbed.uplink = true`) or else every VM's interface is shaped, by "
        "`testbed.shaper`; `none`: no shaping.",
        ('["none", "10 Gbit/s"]', '"1 Gbit/s"'),
        labs=(NETNS, QEMU),
    ),
    Factor(
        "link_queue",
        value_types.durations(0.00001, 60, "auto", "codel", "fq_codel"),
        "s",
        None,
        "What waits before a link of `link_rate`. A duration: a FIFO that holds as much as the link carries "
        'in that time (with `testbed.shaper = "tbf"`), so that the last packet of a full one waits so long. '
        "`auto`: a FIFO of some 5 ms. `codel` and `fq_codel`: these disciplines with the kernel's settings, "
        "where the kernel has them.",
        ('"5 ms, 10 ms, 20 ms .. 160 ms"', '["100 ms", "fq_codel"]'),
        labs=(NETNS, QEMU),
    ),
    Factor(
        "link_delay",
        value_types.durations(0.00001, 1, NO_IMPAIRMENT),
        "s",
        None,
        "Delay of the link, one way, the same both ways: twice this is added to a round trip. It is behind "
        "what `link_rate` shapes. netem carries it out where the kernel has it and nothing else is asked of "
        "the link, else a delay line of the bench's own; the trial keeps which. The idle round trip is "
        "measured before load is sent, and a treatment refused whose link does not take that long."
        + _IMPAIRED,
        ('["none", "1 ms", "20 ms"]', '"20 ms"'),
        labs=(NETNS, QEMU),
    ),
    Factor(
        "link_jitter",
        value_types.durations(0.00001, 1, NO_IMPAIRMENT),
        "s",
        None,
        "How much the delay of each packet may be less or more than `link_delay`, any amount as likely. "
        "Packets keep their order: one that would overtake another leaves right behind it.",
        ('["none", "500 us"]', '"2 ms"'),
        labs=(NETNS, QEMU),
    ),
    Factor(
        "link_loss",
        value_types.percentages(0, 0.5),
        "1",
        None,
        "Share of the packets that the link loses, each by itself, both ways. What TCP hands over as one is "
        "told apart into segments, and single segments are lost.",
        ('["0 %", "0.1 %", "1 %"]', '"0.1 %"'),
        labs=(NETNS, QEMU),
    ),
    Factor(
        "link_reordering",
        value_types.percentages(0, 0.5),
        "1",
        None,
        "Share of the packets that the link holds back for another 250 µs, so that those behind them arrive "
        "first; segments as with `link_loss`.",
        ('["0 %", "1 %"]', '"0.5 %"'),
        labs=(NETNS, QEMU),
    ),
    Factor(
        "vswitch",
        value_types.keywords("bridge", "direct", "macvlan", "router", "openvswitch"),
        "",
        "bridge",
        "What joins the VMs: a Linux `bridge`; `direct`, one link between the two VMs of a pair and no "
        "switch; `macvlan` interfaces of one parent; a `router`, a namespace that forwards IP packets "
        "between two networks, one on each side; `openvswitch`, Open vSwitch of the distribution with its "
        "userspace datapath. That one takes whole packets with their checksums: the VMs then have "
        "`checksum_offload` off, and with it `tso` and `uso`.",
        ('["bridge", "macvlan"]', '"openvswitch"'),
        labs=(NETNS,),
    ),
    Factor(
        "device_cpus",
        value_types.device_cpus(),
        "",
        AUTO,
        "CPUs that do the packet processing of the device under test, by threads of its own (threaded "
        "NAPI of its ports, the threads of Open vSwitch). `apart`: those that `cpus` does not give to the "
        "tester; where it gives none, the second half of all, and the tester, which generates and counts, "
        "has the first. `any`: no threads of its own; the kernel then processes a frame on the CPU that "
        "generates it, so that the device slows the generator down rather than lose frames. `auto`: "
        "`apart` where this machine lets it (root, two CPUs, Linux 6.9), else `any`; the trial keeps "
        "which, and why. Or a CPU list.",
        ('["apart", "any"]', '"2-3"'),
        FRAME_WORKLOADS,
        labs=(NETNS,),
    ),
)
