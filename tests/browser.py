"""A headless Chromium, driven through ChromeDriver's own protocol (W3C WebDriver over HTTP)."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scripts.screenshot import FLAGS, find_chromium

MISSING = (
    ""
    if find_chromium() and shutil.which("chromedriver")
    else "no Chromium with ChromeDriver here (Debian: apt install chromium chromium-driver)"
)
"""Why there is no browser; "" where there is one."""


class Browser:
    """One session. Keys and clicks are real: the browser sends the events."""

    def __init__(self, address: str) -> None:
        self._address = address

    def go(self, url: str) -> None:
        self._post("url", url=url)

    def script(self, text: str, *arguments: Any) -> Any:
        """What a function body returns."""
        return self._post("execute/sync", script=text, args=list(arguments))

    def wait(self, condition: str, seconds: float = 20.0) -> None:
        """Until a script's expression is true; AssertionError if that takes longer."""
        deadline = time.monotonic() + seconds
        while not self.script(f"return Boolean({condition})"):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.05)

    def keys(self, text: str) -> None:
        """Press and release each key."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._post("actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def click(self, x: float, y: float) -> None:
        """Press and release the button at a place of the window."""
        actions = [
            {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._post("actions", actions=[{"type": "pointer", "id": "mouse", "actions": actions}])

    def picture(self) -> bytes:
        """A PNG of the window."""
        return base64.b64decode(self._request("GET", "screenshot"))

    def errors(self) -> list[str]:
        """What the page's console has said of errors."""
        entries = self._post("se/log", type="browser")
        return [str(entry["message"]) for entry in entries if entry["level"] == "SEVERE"]

    def close(self) -> None:
        self._request("DELETE", "")

    def _post(self, command: str, **fields: Any) -> Any:
        return self._request("POST", command, fields)

    def _request(self, method: str, command: str, fields: Any = None) -> Any:
        return _request(method, f"{self._address}/{command}".rstrip("/"), fields)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="relay-layout-") as profile:
        driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(address)
            flags = [*FLAGS, f"--user-data-dir={profile}", "--window-size=1600,1000"]
            options = {"binary": find_chromium(), "args": flags}
            wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
            session = _request("POST", f"{address}/session", {"capabilities": wanted})
            browser = Browser(f"{address}/session/{session['sessionId']}")
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()
            driver.wait(timeout=30)


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if _request("GET", f"{address}/status")["ready"]:
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, "ChromeDriver does not answer"
        time.sleep(0.1)


def _request(method: str, url: str, fields: Any = None) -> Any:
    data = None if fields is None else json.dumps(fields).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {url}: {error.read().decode()[:500]}") from None
