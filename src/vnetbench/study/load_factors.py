"""The factors of the load: how many streams, what they send, how their sockets and threads are."""

from __future__ import annotations

from vnetbench.study import kinds
from vnetbench.study.factor import Factor
from vnetbench.study.workloads import CONNECTIONS, REQUESTS, STREAM

BATCHED = ("io_uring", "io_uring_zerocopy")
"""Send modes by which one call can hand over several messages."""

LOAD_FACTORS = (
    Factor(
        "streams",
        kinds.counts(1, 1024),
        "1",
        1,
        "TCP connections at work at once in each pair of VMs (in each direction when `direction` is `both`).",
        ('"1, 2, 4 .. 16"', "[1, 4]", "4"),
        (STREAM,),
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
        "counts from the time that was set, so that what a slow answer keeps waiting is not left out.",
        ('["1 k/s", "10 k/s"]', '"10000 /s"', '"none"'),
        (REQUESTS,),
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
        "send_mode",
        kinds.words("copy", "auto", "sendfile", "splice", "zerocopy", "io_uring", "io_uring_zerocopy"),
        "",
        "copy",
        "How messages are handed to the kernel. `copy`: one `send` call each. `sendfile`: from a file in "
        "memory. `splice`: from the sender's own memory through a pipe. `zerocopy`: `send` with "
        "MSG_ZEROCOPY; the results say how much the kernel copied after all. `io_uring` and "
        "`io_uring_zerocopy`: requests of io_uring (Linux 6.1; 6.2 for the second). `auto`: before a "
        "treatment's first trial short trials try them all, and `copy` is taken unless another is faster "
        "beyond doubt; the trials' `effective` say which, and why.",
        ('["copy", "zerocopy"]', '"auto"'),
        (STREAM,),
    ),
    Factor(
        "send_batch",
        kinds.counts(1, 256),
        "1",
        1,
        "Messages that one call hands to the kernel. More than one only with `send_mode` `io_uring` or "
        "`io_uring_zerocopy`; each is still a request of its own.",
        ('"1, 4, 16 .. 256"', "16"),
        (STREAM,),
    ),
    Factor(
        "receive_mode",
        kinds.words("discard", "copy"),
        "",
        "discard",
        "What the receiver does with the data. `discard`: the kernel throws it away after all of TCP "
        "(MSG_TRUNC). `copy`: it is copied out, as an application does that looks at it.",
        ('["discard", "copy"]', '"copy"'),
        (STREAM,),
    ),
    Factor(
        "socket_buffer",
        kinds.sizes(1024, 2**30, "auto"),
        "B",
        "auto",
        "SO_SNDBUF and SO_RCVBUF of every connection; `auto` leaves the kernel's auto-tuning on. Where the "
        "kernel grants less (`net.core.wmem_max`, `rmem_max`) the treatment is refused.",
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
    ),
)
