"""Sends marked frames into a team and reads which members carried each."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import NetDevice
from vnetbench.lab.teams.frames import Mark

MAX_FRAMES_IN_FLIGHT = 32
"""Frames on their way at the same time, fewer than the shortest queue on the path holds."""
IN_FLIGHT_TIMEOUT_S = 3.0
"""Longest wait for the frames of a window. A frame that does not arrive by then counts as lost."""
TIMEOUT_AFTER_LOSS_S = 0.3
"""Longest wait for the frames of a window after one has been lost. Later arrivals still count."""
COPIES_WAIT_S = 0.3
"""Wait for copies on further members after the last frame has arrived on its first."""
_RECEIVE_BUFFER_BYTES = 8 << 20
_MAX_FRAME_BYTES = 2048
_ETH_P_ALL = 0x0003  # <linux/if_ether.h>
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23  # <linux/if_packet.h>


@dataclass
class CarriedFrames:
    """Which members carried each frame, both counted from 0."""

    members_by_frame: dict[int, list[int]] = field(default_factory=dict)
    """Members in the order in which the arrivals were read. A frame that no member carried is missing."""
    member_before_frame: dict[int, int] = field(default_factory=dict)
    """The member that carried the frame before, of whatever origin, unless it was the first."""
    foreign_frame_count: int = 0
    """Frames without the mark that the members carried, such as those of LACP."""
    last_member: int | None = None
    """The member that carried the last frame, of whatever origin."""

    def members(self, frame: int) -> list[int]:
        """Return the members that carried a frame; empty for a lost frame."""
        return self.members_by_frame.get(frame, [])

    def add(self, frame: int | None, member: int) -> None:
        """Add the arrival of a frame on a member; None for a foreign frame."""
        if frame is None:
            self.foreign_frame_count += 1
        else:
            if frame not in self.members_by_frame and self.last_member is not None:
                self.member_before_frame[frame] = self.last_member
            self.members_by_frame.setdefault(frame, []).append(member)
        self.last_member = member


def carry_frames(
    source: NetDevice,
    members: Sequence[NetDevice],
    frames: Sequence[bytes],
    mark: Mark,
    *,
    max_frames_in_flight: int = MAX_FRAMES_IN_FLIGHT,
    timeout_s: float = IN_FLIGHT_TIMEOUT_S,
) -> CarriedFrames:
    """Send the frames and return which members carried each.

    Args:
        source: The interface whose frames go to the team.
        members: Where the frames of each member arrive.
        frames: Frames with `mark` and their number from 0.
        mark: The mark of these frames, which no other frame has.
        max_frames_in_flight: Frames on their way at the same time.
        timeout_s: Longest wait for the frames of a window.
    """
    carried = CarriedFrames()
    with contextlib.ExitStack() as exit_stack:
        selector = exit_stack.enter_context(selectors.DefaultSelector())
        for number, member in enumerate(members):
            receiver = exit_stack.enter_context(open_packet_socket(member))
            selector.register(receiver, selectors.EVENT_READ, number)
        sender = exit_stack.enter_context(open_packet_socket(source))
        for begin in range(0, len(frames), max_frames_in_flight):
            window = range(begin, min(begin + max_frames_in_flight, len(frames)))
            for number in window:
                sender.send(frames[number])
            if not _receive_until(selector, carried, mark, window, timeout_s):
                # A path that loses frames would else cost the whole timeout for each window.
                timeout_s = min(timeout_s, TIMEOUT_AFTER_LOSS_S)
        _receive_until(selector, carried, mark, None, min(COPIES_WAIT_S, timeout_s))
    return carried


def open_packet_socket(device: NetDevice) -> socket.socket:
    """Open a socket that sends frames on an interface and receives those that arrive there."""

    def open_here() -> socket.socket:
        # Protocol 0 receives nothing until `bind` names the interface.
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        opened.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        opened.bind((device.interface, _ETH_P_ALL))
        opened.setblocking(False)
        return opened

    with netlink.translate_netlink_errors(device.namespace):
        return netlink.run_in_namespace(device.namespace, open_here)


def _receive_until(
    selector: selectors.BaseSelector,
    carried: CarriedFrames,
    mark: Mark,
    awaited: range | None,
    timeout_s: float,
) -> bool:
    """Receive until each awaited frame has arrived on a member, or the timeout; return whether all have."""
    missing: set[int | None] = {number for number in awaited or () if number not in carried.members_by_frame}
    deadline = time.monotonic() + timeout_s
    while (awaited is None or missing) and (remaining_s := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(remaining_s):
            for frame in _read_all(key.fileobj):  # type: ignore[arg-type]
                number = mark.read_number(frame)
                carried.add(number, key.data)
                missing.discard(number)
    return not missing


def _read_all(receiver: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(BlockingIOError):
        while True:
            yield receiver.recv(_MAX_FRAME_BYTES)
