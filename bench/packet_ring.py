"""Arrival times of packets, measured in the same way for all tools.

An AF_PACKET socket on the sink's interface records the kernel's receive time of each packet (PACKET_RX_RING,
TPACKET_V2; Documentation/networking/packet_mmap.rst). The ring holds a whole run, so no process reads it
under load. The kernel takes the time in the sink's namespace, so the gaps include every earlier delay. The
copy to the ring costs receive processing time, the same for every tool.
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

from bench.programs import RunFailed
from bench.testbed import PeerTestbed
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
"""The used fields of `struct tpacket2_hdr` in <linux/if_packet.h>."""


class PacketRing:
    """Packet arrivals at one interface (`open_packet_ring`)."""

    def __init__(self, listener: socket.socket, ring: mmap.mmap) -> None:
        self._listener = listener
        self._ring = ring

    def arrivals_ns(self) -> npt.NDArray[np.int64]:
        """Return the arrival time of each packet in ns.

        Raises:
            RunFailed: The ring was too small for all packets.
        """
        _, dropped = struct.unpack("II", self._listener.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        if dropped:
            raise RunFailed(f"the packet ring was full and lost {dropped} packets")
        frames = np.frombuffer(self._ring[:], dtype=_FRAME)
        filled = frames[(frames["status"] & _TP_STATUS_USER) != 0]
        times_ns: npt.NDArray[np.int64] = filled["s"].astype(np.int64) * 10**9 + filled["ns"]
        return times_ns


@contextmanager
def open_packet_ring(testbed: PeerTestbed, datagram_bytes: int, max_datagrams: int) -> Iterator[PacketRing]:
    """Open a ring for at most `max_datagrams` UDP datagrams of this size; ignore packets of other sizes."""
    blocks = -(-max_datagrams * _FRAME_BYTES // _BLOCK_BYTES)
    sink = testbed.sink
    with (
        netlink.run_in_namespace(sink.namespace, _create_packet_socket) as listener,
        _map_ring(listener, blocks, _HEADERS + datagram_bytes) as ring,
    ):
        listener.bind((sink.interface, _ETH_P_IP))
        yield PacketRing(listener, ring)


def select_steady_part(times_ns: npt.NDArray[np.int64], seconds: float) -> npt.NDArray[np.int64]:
    """Return the arrivals between 80 % and 10 % of the run's duration before the last arrival.

    This excludes warm-up and shutdown, which differ from tool to tool.

    Raises:
        RunFailed: Fewer than two packets arrived in this time.
    """
    if len(times_ns):
        before_last_s = (times_ns[-1] - times_ns) / 1e9
        times_ns = times_ns[(before_last_s <= 0.8 * seconds) & (before_last_s >= 0.1 * seconds)]
    if len(times_ns) < 2:
        raise RunFailed("too few packets arrived")
    return times_ns


def _create_packet_socket() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


@contextmanager
def _map_ring(listener: socket.socket, blocks: int, packet_bytes: int) -> Iterator[mmap.mmap]:
    listener.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
    _attach_size_filter(listener, packet_bytes)
    frames = blocks * (_BLOCK_BYTES // _FRAME_BYTES)
    request = struct.pack("IIII", _BLOCK_BYTES, blocks, _FRAME_BYTES, frames)
    listener.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
    with mmap.mmap(listener.fileno(), blocks * _BLOCK_BYTES) as ring:
        yield ring


def _attach_size_filter(listener: socket.socket, packet_bytes: int) -> None:
    """Attach a classic BPF filter that accepts only packets of this length."""
    load_length, jump_if_equal, return_bytes = 0x80, 0x15, 0x06
    instructions = (
        (load_length, 0, 0, 0),
        (jump_if_equal, 0, 1, packet_bytes),
        (return_bytes, 0, 0, 0xFFFF),
        (return_bytes, 0, 0, 0),
    )
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(program)
    listener.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(program) // 8, ctypes.addressof(buffer))
    )
