"""Compiled helper programs, built on first use into a folder that belongs to root."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "sources"
BUILT = Path("/var/tmp/vnetbench-redteam-programs")
COMPILERS = {
    "delay_line": "clang -O2 {source} -o {output} -lpthread",
    "attach_pacing": "clang -O2 {source} -o {output} -lbpf",
    "monitor.bpf": "clang -O2 -g -target bpf -I/usr/include/x86_64-linux-gnu -c {source} -o {output}",
    "socket_pacing.bpf": "clang -O2 -g -target bpf -I/usr/include/x86_64-linux-gnu -c {source} -o {output}",
}


def built(name: str) -> Path:
    """Return the compiled program, which is built if its source is new; raises CalledProcessError."""
    source = SOURCES / f"{name}.c"
    output = BUILT / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not output.exists():
        BUILT.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial_output = output.with_suffix(".tmp")
        subprocess.run(COMPILERS[name].format(source=source, output=partial_output).split(), check=True)
        partial_output.replace(output)
    return output
