"""The factors of the load: how many streams, what they send, how their sockets and threads are."""

from __future__ import annotations

from vnetbench.study import kinds
from vnetbench.study.factor import Factor
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, REQUESTS, STREAM

LOAD_FACTORS = (
    Factor(
        "streams",
        kinds.counts(1, 1024),
        "1",
        1,
        "TCP connections, or flows of datagrams, at work at once in each pair of VMs (in each direction when "
        "`direction` is `both`).",
        ('"1, 2, 4 .. 16"', "[1, 4]", "4"),
        (STREAM, DATAGRAMS),
    ),
    Factor(
        "connections",
        kinds.counts(1, 1024),
        "1",
        1,
        "Connections that ask at once in each pair of VMs (in each direction when `direction` is `both`). "
        "With `tcp_crr` each of them makes one connection after the other.",
        ('"1, 2, 4 .. 16"', "[1, 100]", "4"),
        (REQUESTS, CONNECTIONS),
    ),
    Factor(
        "request_size",
        kinds.sizes(1, 64 * 2**20),
        "B",
        1,
        "Bytes of a request.",
        ('"1 B, 64 B, 4 KiB"', '"100 B"'),
        (REQUESTS, CONNECTIONS),
    ),
    Factor(
        "response_size",
        kinds.sizes(1, 64 * 2**20),
        "B",
        1,
        "Bytes of the answer to a request.",
        ('["1 B", "64 KiB"]', '"1 KiB"'),
        (REQUESTS, CONNECTIONS),
    ),
    Factor(
        "rate",
        kinds.frequencies(0.1, 10**7, "none"),
        "1/s",
        "none",
        "How often each connection asks. `none`: a closed loop, a request follows the answer to the one "
        "before. A frequency: an open loop, requests are sent at set times, answered or not, and latency "
        "counts from the time that was set, so that what a slow answer keeps waiting is not left out. "
        "With `udp_stream` how often each stream sends a datagram; `none`: as fast as it goes.",
        ('["1 k/s", "10 k/s"]', '"10000 /s"', '"none"'),
        (REQUESTS, DATAGRAMS),
    ),
    Factor(
        "bit_rate",
        kinds.rates(1000, 10**12, "none"),
        "bit/s",
        "none",
        "The same as `rate` in bits of payload: each stream sends a datagram as often as makes this rate. "
        "Not together with a `rate`.",
        ('["100 Mbit/s", "1 Gbit/s"]', '"none"'),
        (DATAGRAMS,),
    ),
    Factor(
        "pacing",
        kinds.words("spin", "sleep"),
        "",
        "spin",
        "How a source waits until a datagram is due, where there is a rate. `spin`: awake for the last "
        "100 µs, exact, but a whole CPU at high rates. `sleep`: the kernel wakes it; what is due then goes "
        "out at once.",
        ('["spin", "sleep"]', '"sleep"'),
        (DATAGRAMS,),
    ),
    Factor(
        "datagram_size",
        kinds.sizes(18, 65507),
        "B",
        64,
        "Payload bytes of a datagram, without UDP's and IP's headers. 18 B make the smallest Ethernet frame, "
        "1472 B (with IPv6 1452 B) fill an MTU of 1500.",
        ('"18 B, 64 B, 512 B, 1472 B"', '"1 KiB"'),
        (DATAGRAMS,),
    ),
    Factor(
        "udp_gso",
        kinds.switches(),
        "",
        "off",
        "Whether sources hand the kernel up to 64 datagrams as one message (UDP_SEGMENT). On a virtual "
        "network these cross the vSwitch as one, unless `uso` is off. Not with a rate. `off`: each is a "
        "message of its own, up to 64 in one call (sendmmsg).",
        ('["on", "off"]', '"on"'),
        (DATAGRAMS,),
    ),
    Factor(
        "udp_gro",
        kinds.switches(),
        "",
        "off",
        "Whether sinks take datagrams that belong together as one message (UDP_GRO). `off`: each by itself, "
        "up to 64 in one call (recvmmsg).",
        ('["on", "off"]', '"on"'),
        (DATAGRAMS,),
    ),
    Factor(
        "fragments",
        kinds.switches(),
        "",
        "off",
        "Whether a datagram larger than the MTU is sent in fragments. `off`: the treatment is refused.",
        ('["on", "off"]', '"on"'),
        (DATAGRAMS,),
    ),
    Factor(
        "waiting",
        kinds.words("block", "spin", "busy_poll"),
        "",
        "block",
        "How both sides wait. `block`: the kernel puts them to sleep. `spin`: they ask again and again, on "
        "at most so many threads a VM that each has a CPU. `busy_poll`: the kernel asks the interface for "
        "50 µs before it puts them to sleep (SO_BUSY_POLL); needs root, and a driver that can be asked "
        "(a veth cannot, unless its GRO is on). Not with a `rate`.",
        ('["block", "spin"]', '"busy_poll"'),
        (REQUESTS,),
    ),
    Factor(
        "direction",
        kinds.words("forward", "reverse", "both"),
        "",
        "forward",
        "`forward`: the first VM of a pair sends to (or asks) the second; `reverse`: the second sends to the "
        "first; `both`: both send at once.",
        ('["forward", "reverse"]', '"both"'),
    ),
    Factor(
        "message_size",
        kinds.sizes(1, 64 * 2**20),
        "B",
        2**20,
        "Bytes handed to the kernel in one `send` call.",
        ('"64 B, 256 B, 1 KiB .. 64 KiB"', '"1 MiB"'),
        (STREAM,),
    ),
    Factor(
        "socket_buffer",
        kinds.sizes(1024, 2**30, "auto"),
        "B",
        "auto",
        "SO_SNDBUF and SO_RCVBUF of every connection; `auto` leaves the kernel's auto-tuning on. Where the "
        "kernel grants less (`net.core.wmem_max`, `rmem_max`) the treatment is refused. Of `udp_stream` the "
        "buffers of its UDP sockets; `auto` is the kernel's default.",
        ('["8 KiB", "64 KiB", "auto"]', '"auto"'),
    ),
    Factor(
        "congestion_control",
        kinds.algorithms(),
        "",
        "cubic",
        "TCP's congestion control, by the kernel's name for it. The system's own default differs between "
        "machines, so it is set in every trial.",
        ('["cubic", "bbr"]', '"reno"'),
        (STREAM, REQUESTS, CONNECTIONS),
    ),
)
