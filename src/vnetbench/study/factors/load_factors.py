"""The factors of the load: how many streams, what they send, how their sockets and threads are."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.workloads import (
    FRAME_WORKLOADS,
    MIXED,
    SOCKET_WORKLOADS,
    TCP_CRR,
    TCP_RR,
    TCP_STREAM,
    UDP_STREAM,
)

BATCH_SEND_MODES = ("io_uring", "io_uring_zerocopy")
"""Send modes by which one call can hand over several messages."""
VSOCK = "vsock"
"""A level of `transport` that has nothing of TCP."""
ZERO_COPY_SEND_MODES = ("zerocopy", "io_uring_zerocopy")
"""Send modes that lend the messages' memory to the kernel."""

LOAD_FACTORS = (
    Factor(
        "streams",
        value_types.integers(1, 1024),
        "1",
        1,
        "TCP connections, or flows of datagrams, at work at once in each pair of VMs (in each direction when "
        "`direction` is `both`; 1024 both ways together at most).",
        ('"1, 2, 4 .. 16"', "[1, 4]", "4"),
        (TCP_STREAM, UDP_STREAM, MIXED),
    ),
    Factor(
        "connections",
        value_types.integers(1, 1024),
        "1",
        1,
        "Connections that ask at once in each pair of VMs (in each direction when `direction` is `both`). "
        "With `tcp_crr` each of them makes one connection after the other.",
        ('"1, 2, 4 .. 16"', "[1, 100]", "4"),
        (TCP_RR, TCP_CRR, MIXED),
    ),
    Factor(
        "request_size",
        value_types.sizes(1, 64 * 2**20),
        "B",
        1,
        "Bytes of a request.",
        ('"1 B, 64 B, 4 KiB"', '"100 B"'),
        (TCP_RR, TCP_CRR, MIXED),
    ),
    Factor(
        "response_size",
        value_types.sizes(1, 64 * 2**20),
        "B",
        1,
        "Bytes of the answer to a request.",
        ('["1 B", "64 KiB"]', '"1 KiB"'),
        (TCP_RR, TCP_CRR, MIXED),
    ),
    Factor(
        "rate",
        value_types.frequencies(0.1, 10**7, "none"),
        "1/s",
        "none",
        "How often each connection asks. `none`: a closed loop, a request follows the answer to the one "
        "before. A frequency: an open loop, requests are sent at set times, answered or not, and latency "
        "counts from the time that was set, so that what a slow answer keeps waiting is not left out. "
        "With `udp_stream` how often each stream sends a datagram; `none`: as fast as it goes.",
        ('["1 k/s", "10 k/s"]', '"10000 /s"', '"none"'),
        (TCP_RR, UDP_STREAM, MIXED),
        workload_defaults={MIXED: 1000.0},
    ),
    Factor(
        "bit_rate",
        value_types.bit_rates(1000, 10**12, "none"),
        "bit/s",
        "none",
        "The same as `rate` in bits of payload: each stream sends a datagram as often as makes this rate. "
        "Not together with a `rate`.",
        ('["100 Mbit/s", "1 Gbit/s"]', '"none"'),
        (UDP_STREAM,),
    ),
    Factor(
        "pacing",
        value_types.keywords("spin", "sleep"),
        "",
        "spin",
        "How a source waits until a datagram is due, where there is a rate. `spin`: awake for the last "
        "100 µs, exact, but a whole CPU at high rates. `sleep`: the kernel wakes it; what is due then goes "
        "out at once.",
        ('["spin", "sleep"]', '"sleep"'),
        (UDP_STREAM,),
    ),
    Factor(
        "datagram_size",
        value_types.sizes(18, 65507),
        "B",
        64,
        "Payload bytes of a datagram, without UDP's and IP's headers. 18 B make the smallest Ethernet frame, "
        "1472 B (with IPv6 1452 B) fill an MTU of 1500.",
        ('"18 B, 64 B, 512 B, 1472 B"', '"1 KiB"'),
        (UDP_STREAM,),
    ),
    Factor(
        "udp_gso",
        value_types.on_off(),
        "",
        "off",
        "Whether sources hand the kernel up to 64 datagrams as one message (UDP_SEGMENT). On a virtual "
        "network these cross the vSwitch as one, unless `uso` is off. Not with a rate. `off`: each is a "
        "message of its own, up to 64 in one call (sendmmsg).",
        ('["on", "off"]', '"on"'),
        (UDP_STREAM,),
    ),
    Factor(
        "udp_gro",
        value_types.on_off(),
        "",
        "off",
        "Whether sinks take datagrams that belong together as one message (UDP_GRO). `off`: each by itself, "
        "up to 64 in one call (recvmmsg).",
        ('["on", "off"]', '"on"'),
        (UDP_STREAM,),
    ),
    Factor(
        "fragments",
        value_types.on_off(),
        "",
        "off",
        "Whether a datagram larger than the MTU is sent in fragments. `off`: the treatment is refused.",
        ('["on", "off"]', '"on"'),
        (UDP_STREAM,),
    ),
    Factor(
        "waiting",
        value_types.keywords("block", "spin", "busy_poll"),
        "",
        "block",
        "How both sides wait. `block`: the kernel puts them to sleep. `spin`: they ask again and again, on "
        "at most so many threads a VM that each has a CPU. `busy_poll`: the kernel asks the interface for "
        "50 µs before it puts them to sleep (SO_BUSY_POLL); needs root, and a driver that can be asked "
        "(a veth cannot, unless its GRO is on). Not with a `rate`.",
        ('["block", "spin"]', '"busy_poll"'),
        (TCP_RR, MIXED),
    ),
    Factor(
        "direction",
        value_types.directions(),
        "",
        "forward",
        "`forward`: the first VM of a pair sends to (or asks) the second; `reverse`: the second sends to the "
        "first; `both`: both send at once, as many streams each way. `3/1`: both at once, for each of "
        "`streams` (or `connections`) three forward and one in reverse. With `mixed` it is the direction of "
        "the transfers: the first VM asks in any case.",
        ('["forward", "reverse"]', '["both", "3/1", "1/3"]'),
    ),
    Factor(
        "message_size",
        value_types.sizes(1, 64 * 2**20),
        "B",
        2**20,
        "Bytes handed to the kernel in one `send` call.",
        ('"64 B, 256 B, 1 KiB .. 64 KiB"', '"1 MiB"'),
        (TCP_STREAM, MIXED),
    ),
    Factor(
        "send_mode",
        value_types.keywords(
            "copy", "auto", "sendfile", "splice", "zerocopy", "io_uring", "io_uring_zerocopy"
        ),
        "",
        "copy",
        "How messages are handed to the kernel. `copy`: one `send` call each. `sendfile`: from a file in "
        "memory. `splice`: from the sender's own memory through a pipe. `zerocopy`: `send` with "
        "MSG_ZEROCOPY; the results say how much the kernel copied after all. `io_uring` and "
        "`io_uring_zerocopy`: requests of io_uring (Linux 6.1; 6.2 for the second). `auto`: before a "
        "treatment's first trial short trials try them all, and `copy` is taken unless another is faster "
        "beyond doubt; the trials' `effective` say which, and why.",
        ('["copy", "zerocopy"]', '"auto"'),
        (TCP_STREAM,),
    ),
    Factor(
        "send_batch",
        value_types.integers(1, 256),
        "1",
        1,
        "Messages that one call hands to the kernel. More than one only with `send_mode` `io_uring` or "
        "`io_uring_zerocopy`; each is still a request of its own.",
        ('"1, 4, 16 .. 256"', "16"),
        (TCP_STREAM,),
    ),
    Factor(
        "receive_mode",
        value_types.keywords("discard", "copy"),
        "",
        "discard",
        "What the receiver does with the data. `discard`: the kernel throws it away after all of TCP "
        "(MSG_TRUNC). `copy`: it is copied out, as an application does that looks at it.",
        ('["discard", "copy"]', '"copy"'),
        (TCP_STREAM,),
    ),
    Factor(
        "socket_buffer",
        value_types.sizes(1024, 2**30, "auto"),
        "B",
        "auto",
        "SO_SNDBUF and SO_RCVBUF of every connection; `auto` leaves the kernel's auto-tuning on. Where the "
        "kernel grants less (`net.core.wmem_max`, `rmem_max`) the treatment is refused. Of `udp_stream` the "
        "buffers of its UDP sockets; `auto` is the kernel's default.",
        ('["8 KiB", "64 KiB", "auto"]', '"auto"'),
        SOCKET_WORKLOADS,
    ),
    Factor(
        "transport",
        value_types.keywords("tcp", "mptcp", VSOCK),
        "",
        "tcp",
        "What carries the streams. `mptcp`: Multipath TCP (RFC 8684), read back of every stream at the "
        "beginning and at the end; a stream that falls back to TCP ends the treatment. There is one path "
        "between the VMs of a pair, so one subflow a stream, unless path managers are set up by hand. What "
        "is read of TCP (round trips, retransmits, segments) is of a stream's first subflow. `vsock`: VSOCK "
        '(vsock(7)) between a guest and its host (the lab `qemu`, `role = "guest-to-host"`), which crosses '
        "no adapter. It has no congestion control, and received data is copied out, whatever those factors "
        "say.",
        ('["tcp", "mptcp"]', '"vsock"'),
        (TCP_STREAM, TCP_RR, TCP_CRR),
    ),
    Factor(
        "pacing_rate",
        value_types.bit_rates(10**5, 10**12, "none"),
        "bit/s",
        "none",
        "The rate that each stream is paced to by the kernel (SO_MAX_PACING_RATE): read back, and held "
        "against what arrives.",
        ('["none", "1 Gbit/s"]', '"100 Mbit/s, 1 Gbit/s"'),
        (TCP_STREAM,),
    ),
    Factor(
        "threads",
        value_types.integers(1, 1024, "auto"),
        "1",
        "auto",
        "Threads of each VM that its streams (or connections) are dealt out to in turn. `auto`: one for each "
        "of them; with `waiting = spin` at most so many that each has a CPU.",
        ('[1, 4, "auto"]', '"1, 2, 4 .. 16"'),
        (TCP_STREAM, TCP_RR),
    ),
    Factor(
        "thread_cpus",
        value_types.thread_cpus(),
        "",
        "any",
        "Where the threads of the load run. `any`: where the VM's processes may (`cpus`). `spread`: each on "
        "one CPU of the VM's, in turn; VMs that share their CPUs go on where the one before ended. `0-1`: "
        "the threads of each VM take these in turn. `0-1/2-3`: those of the first VM of a pair take the ones "
        "before the stroke, those of the second the ones after it.",
        ('["any", "spread"]', '"0/1"'),
        workload_defaults=dict.fromkeys(FRAME_WORKLOADS, "spread"),
    ),
    Factor(
        "congestion_control",
        value_types.congestion_controls(),
        "",
        "cubic",
        "TCP's congestion control, by the kernel's name for it. The system's own default differs between "
        "machines, so it is set in every trial.",
        ('["cubic", "bbr"]', '"reno"'),
        (TCP_STREAM, TCP_RR, TCP_CRR, MIXED),
    ),
)
