"""A headless Chromium that opens a page and evaluates JavaScript in it (Chrome DevTools Protocol)."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_ANSWER_TIMEOUT_S = 120.0
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--disable-background-networking", "--remote-debugging-pipe",
)  # fmt: skip
_DRAW_ALL_CHARTS = """(async () => {
  document.querySelectorAll('figure').forEach((figure) => { figure.hidden = false; });
  document.querySelectorAll('details').forEach((details) => { details.open = true; });
  dispatchEvent(new Event('beforeprint'));
  const isDrawn = (figure) => figure.result;
  for (let i = 0; i < 600 && ![...document.querySelectorAll('figure')].every(isDrawn); i++)
    await new Promise((resolve) => setTimeout(resolve, 100));
  return [...document.querySelectorAll('figure')].filter((figure) => !isDrawn(figure)).map(({ id }) => id);
})()"""


class Browser:
    """One Chromium process with one tab."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        commands_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4, each ended by a zero byte.
        script = f'exec "$@" 3<&{commands_out} 4>&{answers_in}'
        arguments = [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *arguments],
            pass_fds=(commands_out, answers_in),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_out)
        os.close(answers_in)
        self._unread = b""
        self._last_id = 0
        self._session: dict[str, str] = {}
        target = next(
            each for each in self._send("Target.getTargets")["targetInfos"] if each["type"] == "page"
        )
        attached = self._send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def open_page(self, path: Path, width_px: int) -> None:
        """Open a page of vnetbench with this width, unfold its contents and draw all of its charts."""
        size = {"width": width_px, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._send("Emulation.setDeviceMetricsOverride", **size)
        self._send("Page.enable")
        self._send("Page.navigate", url=path.as_uri())
        self.evaluate(
            "new Promise((resolve) => { const wait = () => document.readyState === 'complete'"
            " ? resolve() : setTimeout(wait, 50); wait(); })"
        )
        not_drawn = self.evaluate(_DRAW_ALL_CHARTS)
        assert not_drawn == [], f"charts are not drawn: {not_drawn}"

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, after its promise if it is one."""
        answer = self._send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def _send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last_id += 1
        command = {"id": self._last_id, "method": method, "params": parameters, **self._session}
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        end = time.monotonic() + _ANSWER_TIMEOUT_S
        while True:
            message = self._read_message(end)
            if message.get("id") == self._last_id:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result

    def _read_message(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"Chromium did not answer within {_ANSWER_TIMEOUT_S:.0f} s"
            data = os.read(self._answers, 1 << 20)
            assert data, "Chromium ended"
            self._unread += data
        first, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message
