"""Programs that injections start: `python programs.py NAME ARGUMENTS`. Each runs until it is killed."""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from pathlib import Path

ETH_P_ALL = 3
BUFFER = bytes(65536)


def spin(duty: float = 1.0, period_s: float = 0.01) -> None:
    """Use a share of one CPU."""
    while True:
        start = time.monotonic()
        while duty >= 1 or time.monotonic() - start < duty * period_s:
            pass
        time.sleep(max(period_s - (time.monotonic() - start), 0))


def syscalls() -> None:
    """Use a CPU in the kernel."""
    reader, writer = os.pipe()
    while True:
        os.write(writer, BUFFER[:4096])
        os.read(reader, 4096)


def memory(mebibytes: int) -> None:
    """Copy memory that no cache holds."""
    source = bytearray(mebibytes << 20)
    while True:
        bytes(source)


def write_files(path: str, mebibytes: int) -> None:
    """Write a file with fsync again and again."""
    data = os.urandom(1 << 20)
    while True:
        with Path(path).open("wb") as file:
            for _ in range(mebibytes):
                file.write(data)
            file.flush()
            os.fsync(file.fileno())


def forks() -> None:
    """Start processes that end at once."""
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)


def wakeups(threads: int) -> None:
    """Wake threads every 200 microseconds."""

    def tick() -> None:
        while True:
            time.sleep(0.0002)

    for _ in range(threads - 1):
        threading.Thread(target=tick, daemon=True).start()
    tick()


def sink(port: int) -> None:
    """Receive TCP and UDP on a port."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("", port))
    threading.Thread(target=_drain, args=(datagrams,), daemon=True).start()
    server = socket.create_server(("", port), reuse_port=True)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_drain, args=(connection,), daemon=True).start()


def _drain(receiver: socket.socket) -> None:
    buffer = bytearray(1 << 18)
    while receiver.recv_into(buffer):
        pass


def tcp_flows(address: str, port: int, flows: int) -> None:
    """Send bulk TCP over some connections."""

    def send() -> None:
        while True:
            try:
                with socket.create_connection((address, port), timeout=5) as connection:
                    while True:
                        connection.sendall(BUFFER)
            except OSError:
                time.sleep(0.05)

    for _ in range(flows - 1):
        threading.Thread(target=send, daemon=True).start()
    send()


def udp_flow(address: str, port: int, bits_per_s: float, size: int) -> None:
    """Send datagrams at a rate."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    interval_s = size * 8 / bits_per_s
    due = time.monotonic()
    while True:
        while due <= time.monotonic():
            try:
                sender.sendto(BUFFER[:size], (address, port))
            except OSError:
                time.sleep(0.01)
            due = max(due + interval_s, time.monotonic() - 0.05)
        time.sleep(0.0005)


def broadcast(address: str, port: int, packets_per_s: int) -> None:
    """Send broadcasts of 200 bytes at a rate."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    data = bytes(200)
    sent, start = 0, time.monotonic()
    while True:
        due = (time.monotonic() - start) * packets_per_s
        while sent < due:
            sender.sendto(data, (address, port))
            sent += 1
        time.sleep(0.002)


def capture(interface: str) -> None:
    """Read every packet of an interface, as a monitoring tool does."""
    reader = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    reader.bind((interface, 0))
    buffer = bytearray(1 << 17)
    while True:
        reader.recv_into(buffer)


def relay(first: str, second: str, delay_s: float, late_share: float) -> None:
    """Carry frames between two interfaces, all of them late, or a share of them late and thus reordered."""
    for source, sink_name in ((first, second), (second, first)):
        threading.Thread(target=_carry, args=(source, sink_name, delay_s, late_share), daemon=True).start()
    while True:
        time.sleep(60)


def _carry(source: str, destination: str, delay_s: float, late_share: float) -> None:
    reader = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    reader.bind((source, 0))
    writer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    writer.bind((destination, 0))
    waiting: list[tuple[float, bytes]] = []
    while True:
        reader.settimeout(max(waiting[0][0] - time.monotonic(), 0.00001) if waiting else None)
        try:
            frame, address = reader.recvfrom(1 << 17)
            if address[2] != socket.PACKET_OUTGOING:
                late = late_share >= 1 or random.random() < late_share
                waiting.append((time.monotonic() + (delay_s if late else 0), frame))
                waiting.sort(key=lambda item: item[0])
        except (TimeoutError, BlockingIOError):
            pass
        while waiting and waiting[0][0] <= time.monotonic():
            try:
                writer.send(waiting.pop(0)[1])
            except OSError:
                continue  # A frame larger than the MTU.


PROGRAMS = {
    "spin": (spin, (float, float)),
    "syscalls": (syscalls, ()),
    "memory": (memory, (int,)),
    "write": (write_files, (str, int)),
    "forks": (forks, ()),
    "wakeups": (wakeups, (int,)),
    "sink": (sink, (int,)),
    "tcp": (tcp_flows, (str, int, int)),
    "udp": (udp_flow, (str, int, float, int)),
    "broadcast": (broadcast, (str, int, int)),
    "capture": (capture, (str,)),
    "relay": (relay, (str, str, float, float)),
}

if __name__ == "__main__":
    function, types = PROGRAMS[sys.argv[1]]
    function(*(convert(word) for convert, word in zip(types, sys.argv[2:], strict=False)))  # type: ignore[operator]
