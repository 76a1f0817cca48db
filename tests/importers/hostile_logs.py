"""Make documents and lines of text that need far more memory or time than their size."""

from __future__ import annotations

from collections.abc import Callable, Mapping

MIB = 2**20

_UNDER_ETHR = b"""$ ethr -s

Ethr: Comprehensive Network Performance Measurement Tool (Version: v1.0.0)

"""
_UNDER_UPERF = b"""Starting 2 threads running profile:netperf ...   0.01 seconds

Txn                Count         avg         cpu         max         min
"""
_UNDER_IPERF3 = b"""Connecting to host 127.0.0.1, port 6401
[  5] local 127.0.0.1 port 55409 connected to 127.0.0.1 port 6401
[ ID] Interval           Transfer     Bitrate         Total Datagrams
[  5]   0.00-1.00   sec  2.41 MBytes  20.2 Mbits/sec  77
"""

TEST_LOGS: Mapping[str, Callable[[], bytes]] = {
    "JSON: quotes without an end": lambda: b'{"' + b'\\"' * 500_000,
    "JSON: quotes without an end, many lines": lambda: b"{\n" + (b'"' + b'\\"' * 20_000 + b"\n") * 25,
    "JSON: not a number, quotes without an end": lambda: b"{\nnan\n" + b'"' + b'\\"' * 500_000 + b"\n}\n",
    "JSON: documents on one line": lambda: b"{}" * 500_000,
    "JSON: empty lists": lambda: b"{\n" + b'"a":[' + b"[]," * (2 * MIB + MIB // 2) + b"[]]}\n",
    "JSON: behind a command line": lambda: (
        b"$ iperf3 -c 10.0.0.1 -J\n{\n" + (b'  "a":[' + b"[]," * MIB + b"[]],\n") * 8
    ),
    "JSON: open brackets": lambda: (b"{" + b'"a":[' * 4_000 + b"\n") * 800,
    "JSON: brackets behind the limit": lambda: b'{"a":\n' + (b"[" * MIB + b"\n") * 7,
    "XML: documents on one line": lambda: b"<a></a>" * 150_000,
    "XML: empty tags": lambda: b"<ntttcps>\n" + (b"<a/>" * MIB + b"\n") * 7 + b"</ntttcps>\n",
    "XML: attributes": lambda: b"<ntttcps>\n" + (b'<a b=""/>' * MIB + b"\n") * 3 + b"</ntttcps>\n",
    "XML: open tags": lambda: b"<ntttcps>\n" + (b"<a>" * 100_000 + b"\n") * 5,
    "XML: declarations without an end": lambda: b"<?xml" * 400_000,
    "a line without an end": lambda: b"x" * (40 * MIB),
    "a UTF-16 line without an end": lambda: b"\xff\xfe" + b"x\0\x0a\x0a" * (2 * MIB),
    "NUL": lambda: b"\0" * (24 * MIB),
    "blank lines": lambda: b"\n" * 5_000_000,
    "CR": lambda: b"\r" * 1_000_000,
    "short lines": lambda: b"x\n" * 100_000,
    "rules": lambda: (b"-" * 60 + b"\n") * 20_000,
    "long foreign lines in a run": lambda: (
        b"iperf 3.12\nConnecting to host 10.0.0.1, port 5201\n"
        + (b"\xf0\x9f\x98\x80" + b"y" * MIB + b"\n") * 4
    ),
    "ethr: a long number": lambda: _UNDER_ETHR + b"[a] TCP 1K 1 1K " + b"1" * MIB + b"~!\n",
    "ethr: many spaces": lambda: _UNDER_ETHR + b"[a] TCP 1K 1 1K" + b" " * MIB + b"~!\n",
    "NTttcp: many spaces": lambda: b"Network Characteristics" + b" " * MIB + b"~!\n",
    "uperf: titles without an end": lambda: b"Starting 1 processes running profile:" * 20_000 + b"\n",
    "uperf: a long number": lambda: _UNDER_UPERF + b"a 1 " + b"1" * MIB + b"~!\n",
    "iperf3: a long number": lambda: _UNDER_IPERF3 + b"1" * MIB + b"~!\n",
    "errors": lambda: b"".join(
        b"iperf3: error - unable %d %s\niperf Done.\n" % (number, b"z" * 4000) for number in range(4_000)
    ),
}
