"""Programs that injections of the third set start: `python programs.py NAME ARGUMENTS`."""

from __future__ import annotations

import socket
import sys
import time

PORT = 9
PAUSE_S = 0.002


def broadcast(address: str, packets_per_s: int) -> None:
    """Send broadcasts of 200 bytes at a rate, as a station in a loop does."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    data = bytes(200)
    sent, start = 0, time.monotonic()
    while True:
        due = (time.monotonic() - start) * packets_per_s
        while sent < due:
            sender.sendto(data, (address, PORT))
            sent += 1
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    broadcast(sys.argv[2], int(sys.argv[3]))
