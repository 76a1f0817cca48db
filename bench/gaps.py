"""Gaps between packets as they arrive, by one instrument for all tools: a ring that the kernel fills.

An AF_PACKET socket on the sink's interface gets the kernel's time of each packet (PACKET_RX_RING, TPACKET_V2;
Documentation/networking/packet_mmap.rst). The ring holds a whole run, so nobody reads it under load. The time
is that at which the kernel took the packet over in the sink's namespace: whatever delayed it until then is in
the gaps. Copying a packet to the ring takes time where packets are received, the same for every tool.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from bench.testbed import PeerTestbed
from bench.programs import RunFailed
from vnetbench.lab import netlink

_ETH_P_IP = 0x0800
_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 5, 6, 10
_TPACKET_V2 = 1
_SO_ATTACH_FILTER = 26
_FRAME_BYTES = 128
_BLOCK_BYTES = 1 << 20
_TP_STATUS_USER = 1
_HEADERS = 14 + 20 + 8
_FRAME = np.dtype(
    {
        "names": ["status", "length", "s", "ns"],
        "formats": ["<u4", "<u4", "<u4", "<u4"],
        "offsets": [0, 4, 16, 20],
        "itemsize": _FRAME_BYTES,
    }
)
"""`struct tpacket2_hdr` of <linux/if_packet.h>, as far as it is used."""


class Ring:
    """Arrivals at one interface. Made by `listening`."""

    def __init__(self, listener: socket.socket, ring: mmap.mmap) -> None:
        self._listener = listener
        self._ring = ring

    def arrivals_ns(self) -> npt.NDArray[np.int64]:
        """The time of each packet in ns; raises RunFailed where the ring was too small for all."""
        _, dropped = struct.unpack("II", self._listener.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        if dropped:
            raise RunFailed(f"the ring of arrivals was full, and lost {dropped} packets")
        frames = np.frombuffer(self._ring[:], dtype=_FRAME)
        taken = frames[(frames["status"] & _TP_STATUS_USER) != 0]
        times: npt.NDArray[np.int64] = taken["s"].astype(np.int64) * 10**9 + taken["ns"]
        return times


@contextmanager
def listening(ground: PeerTestbed, datagram_bytes: int, most: int) -> Iterator[Ring]:
    """A ring for at most so many UDP datagrams of that size; packets of another size are none of its own."""
    blocks = -(-most * _FRAME_BYTES // _BLOCK_BYTES)
    sink = ground.sink
    with (
        netlink.run_in_namespace(sink.namespace, _packet_socket) as listener,
        _ring(listener, blocks, _HEADERS + datagram_bytes) as ring,
    ):
        listener.bind((sink.interface, _ETH_P_IP))
        yield Ring(listener, ring)


def in_steady_part(times_ns: npt.NDArray[np.int64], seconds: float) -> npt.NDArray[np.int64]:
    """The arrivals from 80 % to 10 % of the run before the last: tools warm up and end each in its own way.

    Raises RunFailed where there are not two.
    """
    if len(times_ns):
        to_last_s = (times_ns[-1] - times_ns) / 1e9
        times_ns = times_ns[(to_last_s <= 0.8 * seconds) & (to_last_s >= 0.1 * seconds)]
    if len(times_ns) < 2:
        raise RunFailed("too few packets arrived")
    return times_ns


def _packet_socket() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


@contextmanager
def _ring(listener: socket.socket, blocks: int, packet_bytes: int) -> Iterator[mmap.mmap]:
    listener.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
    _take_only(listener, packet_bytes)
    frames = blocks * (_BLOCK_BYTES // _FRAME_BYTES)
    request = struct.pack("IIII", _BLOCK_BYTES, blocks, _FRAME_BYTES, frames)
    listener.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
    with mmap.mmap(listener.fileno(), blocks * _BLOCK_BYTES) as ring:
        yield ring


def _take_only(listener: socket.socket, packet_bytes: int) -> None:
    """A classic BPF filter: load the length; take the packet if it is that, else nothing of it."""
    load_length, jump_if_equal, give = 0x80, 0x15, 0x06
    instructions = (
        (load_length, 0, 0, 0),
        (jump_if_equal, 0, 1, packet_bytes),
        (give, 0, 0, 0xFFFF),
        (give, 0, 0, 0),
    )
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    kept = ctypes.create_string_buffer(program)
    listener.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(program) // 8, ctypes.addressof(kept))
    )
