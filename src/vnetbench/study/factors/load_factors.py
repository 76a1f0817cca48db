"""Factors of the load: streams, message sizes, rates, sockets and threads."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import DoctorTreatment, Factor
from vnetbench.study.factors.port_ranges import ANY_PORTS, source_ports
from vnetbench.study.workloads import (
    DISRUPTION,
    FRAME_WORKLOAD_NAMES,
    MIXED,
    SOCKET_WORKLOAD_NAMES,
    TCP_CRR,
    TCP_DISRUPTION,
    TCP_RR,
    TCP_STREAM,
    UDP_STREAM,
)

BATCH_SEND_MODES = ("io_uring", "io_uring_zerocopy")
"""Send modes in which one call can send several messages."""
VSOCK = "vsock"
"""Level of `transport` that does not use TCP."""
ZERO_COPY_SEND_MODES = ("zerocopy", "io_uring_zerocopy")
"""Send modes in which the kernel sends from the application's memory without a copy."""

STREAMS = Factor(
    "streams",
    value_types.integers(1, 1024),
    unit="1",
    default=1,
    description="TCP connections, or UDP flows, that send at the same time in each pair of VMs. With "
    "`direction = both` this number applies to each direction. An endpoint takes 1024 streams at most, "
    "both directions together.",
    examples=('"1, 2, 4 .. 16"', "[1, 4]", "4"),
    workloads=(TCP_STREAM, UDP_STREAM, MIXED, DISRUPTION, TCP_DISRUPTION),
    counted_noun="stream",
    should_not_lower_rate=True,
    works_with_iperf3_server_as_peer=True,
    is_stream_count=True,
    x_axis_rank=1,
)

CONNECTIONS = Factor(
    "connections",
    value_types.integers(1, 1024),
    unit="1",
    default=1,
    description="Connections that send requests at the same time in each pair of VMs. With "
    "`direction = both` this number applies to each direction. With `tcp_crr` each of them opens one "
    "connection after another.",
    examples=('"1, 2, 4 .. 16"', "[1, 100]", "4"),
    workloads=(TCP_RR, TCP_CRR, MIXED),
    counted_noun="connection",
    should_not_lower_rate=True,
    is_stream_count=True,
)

REQUEST_SIZE = Factor(
    "request_size",
    value_types.sizes(1, 64 * 2**20),
    unit="B",
    default=1,
    description="Size of a request in bytes.",
    examples=('"1 B, 64 B, 4 KiB"', '"100 B"'),
    workloads=(TCP_RR, TCP_CRR, MIXED),
    phrase_template="{} requests",
    agent_parameter="request_bytes",
)

RESPONSE_SIZE = Factor(
    "response_size",
    value_types.sizes(1, 64 * 2**20),
    unit="B",
    default=1,
    description="Size of a response in bytes.",
    examples=('["1 B", "64 KiB"]', '"1 KiB"'),
    workloads=(TCP_RR, TCP_CRR, MIXED),
    phrase_template="{} responses",
    agent_parameter="response_bytes",
)

REQUEST_OR_DATAGRAM_RATE = Factor(
    "rate",
    value_types.frequencies(0.1, 10**7, "none"),
    unit="1/s",
    default="none",
    description="Requests per second of each connection. `none` is a closed loop: each request follows "
    "the response to the one before. A frequency is an open loop: requests leave at fixed times, with or "
    "without responses. Latency then counts from the scheduled time, so the wait behind a slow response "
    "is included. With `udp_stream`: datagrams per second of each stream; `none` sends at full speed. With "
    "`disruption`: the time between two datagrams is the resolution of an outage. With `tcp_disruption`: "
    "messages per second of each stream, each sent when it is due; those that TCP holds back follow at once.",
    examples=('["1 k/s", "10 k/s"]', '"10000 /s"', '"none"'),
    workloads=(TCP_RR, UDP_STREAM, MIXED, DISRUPTION, TCP_DISRUPTION),
    workload_defaults={MIXED: 1000.0, DISRUPTION: 10_000.0, TCP_DISRUPTION: 10_000.0},
    phrase_template="rate {}",
    agent_parameter="rate_per_s",
)

BIT_RATE = Factor(
    "bit_rate",
    value_types.bit_rates(1000, 10**12, "none"),
    unit="bit/s",
    default="none",
    description="Payload bits per second of each stream: the same as `rate`, in another unit. Cannot be "
    "combined with `rate`.",
    examples=('["100 Mbit/s", "1 Gbit/s"]', '"none"'),
    workloads=(UDP_STREAM,),
    phrase_template="rate {}",
)

DATAGRAM_PACING = Factor(
    "pacing",
    value_types.keywords("spin", "sleep"),
    unit="",
    default="spin",
    description="How a source waits for the next datagram when a rate is set. `spin`: it stays awake for "
    "the last 100 µs, which is exact but uses a whole CPU at high rates. `sleep`: the kernel wakes it, "
    "and all datagrams that are due leave together.",
    examples=('["spin", "sleep"]', '"sleep"'),
    workloads=(UDP_STREAM, DISRUPTION),
    agent_parameter="pacing",
)

DATAGRAM_SIZE = Factor(
    "datagram_size",
    value_types.sizes(18, 65507),
    unit="B",
    default=64,
    description="Payload bytes of a datagram, without the UDP and IP headers. 18 B make the smallest "
    "Ethernet frame. 1472 B (IPv6: 1452 B) fill an MTU of 1500.",
    examples=('"18 B, 64 B, 512 B, 1472 B"', '"1 KiB"'),
    workloads=(UDP_STREAM, DISRUPTION),
    phrase_template="{} datagrams",
    agent_parameter="datagram_bytes",
)

UDP_GSO = Factor(
    "udp_gso",
    value_types.on_off(),
    unit="",
    default="off",
    description="UDP segmentation by the kernel (UDP_SEGMENT): a source sends up to 64 datagrams as one "
    "message. On a virtual network that message crosses the vSwitch whole, unless `uso` is off. Cannot "
    "be combined with a rate. `off`: each datagram is one message, up to 64 per call (sendmmsg).",
    examples=('["on", "off"]', '"on"'),
    workloads=(UDP_STREAM,),
    label="UDP GSO",
    should_not_lower_rate=True,
    agent_parameter="gso",
    doctor_treatments=(DoctorTreatment("udp_gso, udp_gro", {"udp_gso": "on", "udp_gro": "on"}, UDP_STREAM),),
)

UDP_GRO = Factor(
    "udp_gro",
    value_types.on_off(),
    unit="",
    default="off",
    description="UDP aggregation by the kernel (UDP_GRO): a sink receives several datagrams of a stream "
    "as one message. `off`: it receives each datagram separately, up to 64 per call (recvmmsg).",
    examples=('["on", "off"]', '"on"'),
    workloads=(UDP_STREAM,),
    label="UDP GRO",
    should_not_lower_rate=True,
    agent_parameter="gro",
)

IP_FRAGMENTATION = Factor(
    "fragments",
    value_types.on_off(),
    unit="",
    default="off",
    description="IP fragmentation of datagrams that are larger than the MTU. `off`: the bench refuses "
    "such a treatment.",
    examples=('["on", "off"]', '"on"'),
    workloads=(UDP_STREAM, DISRUPTION),
    agent_parameter="fragments",
)

WAITING = Factor(
    "waiting",
    value_types.keywords("block", "spin", "busy_poll"),
    unit="",
    default="block",
    description="How both endpoints wait for data. `block`: the kernel puts them to sleep. `spin`: they "
    "poll without sleeping, with one CPU for each thread. `busy_poll`: the kernel polls the interface "
    "for 50 µs before it puts them to sleep (SO_BUSY_POLL). This needs root and a driver that supports "
    "polling (a veth does only with GRO on). `busy_poll` cannot be combined with `rate`.",
    examples=('["block", "spin"]', '"busy_poll"'),
    workloads=(TCP_RR, MIXED),
    phrase_template="waiting: {}",
    agent_parameter="waiting",
)

DIRECTION = Factor(
    "direction",
    value_types.directions(),
    unit="",
    default="forward",
    description="Which VM of a pair sends. `forward`: the first sends data or requests to the second. "
    "`reverse`: the second sends to the first. `both`: both send at the same time, with the same number "
    "of streams. `3/1`: both send, and each of `streams` (or `connections`) stands for three forward "
    "streams and one reverse stream. Then `streams = 2` makes 6 forward and 2 reverse streams. With "
    "`mixed`, the direction applies to the bulk transfers, and the first VM always sends the requests.",
    examples=('["forward", "reverse"]', '["both", "3/1", "1/3"]'),
    phrase_template="{}",
    works_with_iperf3_server_as_peer=True,
)

MESSAGE_SIZE = Factor(
    "message_size",
    value_types.sizes(1, 64 * 2**20),
    unit="B",
    default=2**20,
    description="Bytes that one `send` call passes to the kernel. With `tcp_disruption` at least 8 B: "
    "a message carries its time of sending.",
    examples=('"64 B, 256 B, 1 KiB .. 64 KiB"', '"1 MiB"'),
    workloads=(TCP_STREAM, MIXED, TCP_DISRUPTION),
    workload_defaults={TCP_DISRUPTION: 64},
    phrase_template="{} messages",
    should_not_lower_rate=True,
    agent_parameter="message_bytes",
    works_with_iperf3_server_as_peer=True,
    x_axis_rank=3,
)

SEND_MODE = Factor(
    "send_mode",
    value_types.keywords("copy", "auto", "sendfile", "splice", "zerocopy", "io_uring", "io_uring_zerocopy"),
    unit="",
    default="copy",
    description="How the sender passes messages to the kernel. `copy`: one `send` call for each. "
    "`sendfile`: from a file in memory. `splice`: from the sender's memory through a pipe. `zerocopy`: "
    "`send` with MSG_ZEROCOPY; the results show how much the kernel copied anyway. `io_uring` and "
    "`io_uring_zerocopy`: io_uring requests (Linux 6.1, and 6.2 for the second). `auto`: short trials "
    "compare all modes before the first trial of a treatment. The fastest mode wins if it is "
    "significantly faster than `copy`. The trials' `effective` settings record the mode and the reason.",
    examples=('["copy", "zerocopy"]', '"auto"'),
    workloads=(TCP_STREAM,),
    phrase_template="sent by {}",
    agent_parameter="send",
)

MESSAGES_PER_SEND_CALL = Factor(
    "send_batch",
    value_types.integers(1, 256),
    unit="1",
    default=1,
    description="Messages that one call passes to the kernel. More than one needs `send_mode` `io_uring` "
    "or `io_uring_zerocopy`; each message is still a separate request.",
    examples=('"1, 4, 16 .. 256"', "16"),
    workloads=(TCP_STREAM,),
    phrase_template="{} messages a call",
    should_not_lower_rate=True,
    agent_parameter="send_batch",
)

RECEIVE_MODE = Factor(
    "receive_mode",
    value_types.keywords("discard", "copy"),
    unit="",
    default="discard",
    description="What the receiver does with the data. `discard`: the kernel drops it after TCP "
    "processing (MSG_TRUNC). `copy`: the receiver copies it into its own memory, as an application does.",
    examples=('["discard", "copy"]', '"copy"'),
    workloads=(TCP_STREAM,),
    phrase_template="received by {}",
    agent_parameter="receive",
)

SOCKET_BUFFER = Factor(
    "socket_buffer",
    value_types.sizes(1024, 2**30, "auto"),
    unit="B",
    default="auto",
    description="SO_SNDBUF and SO_RCVBUF of every connection. `auto` keeps the kernel's auto-tuning. The "
    "bench refuses a treatment if the kernel grants less (`net.core.wmem_max`, `rmem_max`). With "
    "`udp_stream`: the buffers of the UDP sockets; `auto` is then the kernel's default.",
    examples=('["8 KiB", "64 KiB", "auto"]', '"auto"'),
    workloads=SOCKET_WORKLOAD_NAMES,
    phrase_template="{} socket buffer",
    should_not_lower_rate=True,
    agent_parameter="socket_buffer_bytes",
    works_with_iperf3_server_as_peer=True,
    x_axis_rank=4,
)

TRANSPORT = Factor(
    "transport",
    value_types.keywords("tcp", "mptcp", VSOCK),
    unit="",
    default="tcp",
    description="The transport protocol of the streams. `mptcp`: Multipath TCP (RFC 8684). The bench "
    "reads it back from every stream at the start and at the end, and refuses the treatment if a stream "
    "falls back to TCP. The VMs of a pair have one path, so each stream has one subflow unless you "
    "configure path managers. TCP counters (round trips, retransmissions, segments) are those of the "
    "first subflow. `vsock`: VSOCK (vsock(7)) between a guest and its host (lab `qemu`, "
    '`role = "guest-to-host"`), without an adapter. VSOCK has no congestion control, and the receiver '
    "always copies the data.",
    examples=('["tcp", "mptcp"]', '"vsock"'),
    workloads=(TCP_STREAM, TCP_RR, TCP_CRR),
    phrase_template="over {}",
    agent_parameter="transport",
    doctor_treatments=(DoctorTreatment("transport mptcp", {"transport": "mptcp"}),),
)

SOURCE_PORTS = Factor(
    "source_ports",
    source_ports(),
    unit="",
    default=ANY_PORTS,
    description="Source ports of the streams, which decide the uplink that a team with a hash of ports (such "
    "as layer3+4) chooses for them. `any`: the kernel chooses, as for most programs; for TCP, Linux prefers "
    "ports of one parity, all even or all odd. `consecutive`: consecutive free ports from a random start in "
    "the ephemeral range (`net.ipv4.ip_local_port_range`). `50000-50015`: these ports in turn; a port in use "
    "is an error. `spread`: one random port of each equal part of the ephemeral range, even and odd in turn. "
    "With `udp_stream` it is the port of the VM that sends, and each direction starts with the first port. "
    "With TCP it is the port of the first VM of a pair, which opens all connections, those of reverse "
    "streams included. `mixed`: requests come first. The workload `tcp_crr` does not have this factor, "
    "because each request has its own connection. The trials' `effective` settings record all ports.",
    examples=('["any", "spread"]', '["consecutive", "50000-50015"]'),
    workloads=(TCP_STREAM, TCP_RR, UDP_STREAM, MIXED),
    agent_parameter="source_ports",
    works_with_iperf3_server_as_peer=True,
)

PACING_RATE = Factor(
    "pacing_rate",
    value_types.bit_rates(10**5, 10**12, "none"),
    unit="bit/s",
    default="none",
    description="Rate to which the kernel paces each stream (SO_MAX_PACING_RATE). The bench reads it "
    "back and compares it with the rate that arrives. With `mixed` it applies to the bulk transfers. An "
    "iperf3 server that sends paces its streams itself (-b).",
    examples=('["none", "1 Gbit/s"]', '"100 Mbit/s, 1 Gbit/s"'),
    workloads=(TCP_STREAM, MIXED),
    phrase_template="paced to {}",
    agent_parameter="pacing_rate_bps",
    works_with_iperf3_server_as_peer=True,
    doctor_treatments=(DoctorTreatment("pacing_rate", {"pacing_rate": 10**9}),),
)

THREADS = Factor(
    "threads",
    value_types.integers(1, 1024, "auto"),
    unit="1",
    default="auto",
    description="Threads of each VM that share its streams (or connections) in turn. `auto`: one thread "
    "for each stream; with `waiting = spin` no more than one thread for each CPU.",
    examples=('[1, 4, "auto"]', '"1, 2, 4 .. 16"'),
    workloads=(TCP_STREAM, TCP_RR),
    counted_noun="thread",
    should_not_lower_rate=True,
    agent_parameter="threads",
)

THREAD_CPUS = Factor(
    "thread_cpus",
    value_types.thread_cpus(),
    unit="",
    default="any",
    description="CPUs of the load's threads. `any`: every CPU that the VM may use (`cpus`). `spread`: "
    "one of the VM's CPUs for each thread, in turn; VMs that share CPUs continue where the previous one "
    "stopped. `0-1`: the threads of each VM use these CPUs in turn. `0-1/2-3`: the first VM of a pair "
    "uses the CPUs before the slash, the second VM those after it.",
    examples=('["any", "spread"]', '"0/1"'),
    workload_defaults=dict.fromkeys(FRAME_WORKLOAD_NAMES, "spread"),
    label="Threads on",
    phrase_template="threads on {}",
)

CONGESTION_CONTROL = Factor(
    "congestion_control",
    value_types.congestion_controls(),
    unit="",
    default="cubic",
    description="TCP congestion control, by the kernel's name. The bench sets it in every trial, because "
    "the default differs between systems.",
    examples=('["cubic", "bbr"]', '"reno"'),
    workloads=(TCP_STREAM, TCP_RR, TCP_CRR, MIXED, TCP_DISRUPTION),
    phrase_template="{}",
    agent_parameter="congestion_control",
    works_with_iperf3_server_as_peer=True,
)

LOAD_FACTORS = (
    STREAMS, CONNECTIONS, REQUEST_SIZE, RESPONSE_SIZE, REQUEST_OR_DATAGRAM_RATE, BIT_RATE, DATAGRAM_PACING,
    DATAGRAM_SIZE, UDP_GSO, UDP_GRO, IP_FRAGMENTATION, WAITING, DIRECTION, MESSAGE_SIZE, SEND_MODE,
    MESSAGES_PER_SEND_CALL, RECEIVE_MODE, SOCKET_BUFFER, TRANSPORT, SOURCE_PORTS, PACING_RATE, THREADS,
    THREAD_CPUS, CONGESTION_CONTROL,
)  # fmt: skip
