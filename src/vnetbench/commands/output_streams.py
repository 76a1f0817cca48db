"""Standard output and error of the command line, whose reader may exit before the command ends."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def discard_output_to_closed_pipes() -> None:
    """Let standard output and error discard what they get once their reader has exited (`| head`).

    The command then does its work to the end, and its exit code does not depend on the reader: a campaign
    goes on, and a comparison still fails.
    """
    sys.stdout = _make_stream_ignoring_closed_pipe(sys.stdout)
    sys.stderr = _make_stream_ignoring_closed_pipe(sys.stderr)


class _DescriptorIgnoringClosedPipe(io.FileIO):
    """A descriptor that leads to /dev/null from the first write that has no reader."""

    def write(self, data: object) -> int:
        """Write as FileIO does; never raises BrokenPipeError."""
        try:
            return super().write(data)  # type: ignore[arg-type]  # the stub has a private type
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(memoryview(data))  # type: ignore[arg-type]  # as above


def _make_stream_ignoring_closed_pipe(stream: TextIO | None) -> TextIO:
    """Return a stream to the same descriptor; a stream that has none stays as it is."""
    try:
        descriptor = stream.fileno() if stream is not None else -1
    except (OSError, ValueError):
        descriptor = -1
    if descriptor < 0 or not isinstance(stream, io.TextIOWrapper):
        return stream  # type: ignore[return-value]  # None without any output, as Python has it
    stream.flush()
    raw = _DescriptorIgnoringClosedPipe(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        # A terminal or pipe without the character gets a question mark; the command does not fail half-way.
        errors="replace" if stream.errors == "strict" else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
