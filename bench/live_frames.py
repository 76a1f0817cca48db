"""Minimal XDP programs that send and drop frames, the reference for the agent's frame generator.

`send INTERFACE SECONDS` redirects the same frame into an interface in a loop, without sequence numbers, time
stamps or counters. `drop INTERFACE` drops all received frames until its standard input closes. Each program
is a few instructions that this module passes to bpf(2) (include/uapi/linux/bpf.h), independent of the agent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence

FRAME_BYTES = 60
READY = "ready"
"""Printed when the program starts to send or drop."""
_SYS_BPF = {"x86_64": 321, "aarch64": 280}
_MAP_CREATE, _MAP_UPDATE, _PROG_LOAD, _TEST_RUN, _LINK_CREATE = 0, 2, 5, 10, 28
_DEVMAP, _XDP, _ATTACH_XDP = 14, 6, 37
_LIVE_FRAMES = 1 << 1
_FRAMES_PER_FLUSH = 64
_MAX_RUNS = (1 << 32) - 1
_XDP_DROP = 1
_REDIRECT_MAP = 51
_MOVE, _LOAD_MAP, _CALL, _EXIT = 0xB7, 0x18, 0x85, 0x95
_MAP_FD = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command: int, attributes: bytes) -> int:
    """Call bpf(2) and return its result.

    Raises:
        OSError: The call failed.
    """
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result: int = _libc.syscall(_SYS_BPF[os.uname().machine], command, buffer, len(attributes))
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
    return result


def _instruction(code: int, register: int = 0, source: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, register | source << 4, 0, value)


def _load_program(instructions: Sequence[bytes]) -> int:
    code = ctypes.create_string_buffer(b"".join(instructions))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    return _bpf(
        _PROG_LOAD,
        struct.pack(
            "=IIQQIIQII", _XDP, len(b"".join(instructions)) // 8, ctypes.addressof(code),
            ctypes.addressof(licence), 0, 0, 0, 0, 0,
        ),
    )  # fmt: skip


def _create_port_map(interface: str) -> int:
    """Return the descriptor of a device map with the interface as its only element."""
    descriptor = _bpf(_MAP_CREATE, struct.pack("=IIIII", _DEVMAP, 4, 4, 1, 0))
    key, value = ctypes.c_uint32(0), ctypes.c_uint32(socket.if_nametoindex(interface))
    attributes = struct.pack("=IIQQQ", descriptor, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
    _bpf(_MAP_UPDATE, attributes)
    return descriptor


def send(interface: str, seconds: float) -> None:
    """Redirect frames into an interface for this time, in one call, since every call has a start-up time."""
    program = _load_program(
        [
            _instruction(_LOAD_MAP, 1, _MAP_FD, _create_port_map(interface)),
            _instruction(0),
            _instruction(_MOVE, 2),
            _instruction(_MOVE, 3),
            _instruction(_CALL, value=_REDIRECT_MAP),
            _instruction(_EXIT),
        ]
    )
    frame = ctypes.create_string_buffer(b"\x02" * 12 + b"\x88\xb5" + bytes(FRAME_BYTES - 14), FRAME_BYTES)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    print(READY, flush=True)
    with contextlib.suppress(InterruptedError):
        _bpf(
            _TEST_RUN,
            struct.pack(
                "=IIIIQQIIIIQQIIII", program, 0, FRAME_BYTES, 0, ctypes.addressof(frame), 0, _MAX_RUNS,
                0, 0, 0, 0, 0, _LIVE_FRAMES, 0, _FRAMES_PER_FLUSH, 0,
            ),
        )  # fmt: skip


def drop(interface: str) -> None:
    """Drop the frames that an interface receives, in its driver, until the standard input closes."""
    program = _load_program([_instruction(_MOVE, value=_XDP_DROP), _instruction(_EXIT)])
    native = 1 << 2
    _bpf(_LINK_CREATE, struct.pack("=IIII", program, socket.if_nametoindex(interface), _ATTACH_XDP, native))
    print(READY, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["send", name, seconds_argument]:
            send(name, float(seconds_argument))
        case ["drop", name]:
            drop(name)
        case _:
            sys.exit(__doc__)
