"""Chromium over a pipe: the DevTools protocol with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
    "--window-size=1280,1000",
)


class Browser:
    """A headless browser."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        # Chromium reads commands from descriptor 3 and answers on 4.
        def hand_over() -> None:
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=hand_over,  # noqa: PLW1509 (no threads)
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._last_id = 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def command(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self._in], [], [], left)[0]:
                chunk = os.read(self._in, 1 << 20)
                assert chunk, "the browser went away"
                self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, page: Path | str) -> Tab:
        """Open a page from disk, or by its address, and wait until it is loaded."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, target)
        for domain in ("Network", "Page", "Runtime", "Log"):
            tab.command(f"{domain}.enable")
        tab.command("Page.bringToFront")
        self.events.clear()
        tab.command("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        tab.wait_for("document.readyState === 'complete'")
        return tab


class Tab:
    """One page in the browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the page."""
        return self._browser.command(method, self._session, **parameters)

    def close(self) -> None:
        """Close the page."""
        self._browser.command("Target.closeTarget", targetId=self._target)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str, seconds: float = PATIENCE_S) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while not self.value(condition):
            assert time.monotonic() < deadline, f"never: {condition}"
            time.sleep(0.03)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move, press, release or turn the wheel."""
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start: tuple[float, float], end: tuple[float, float], **more: Any) -> None:
        """Drag with the left button."""
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, button="left", buttons=1, clickCount=1, **more)
        self.mouse("mouseMoved", *end, button="left", buttons=1, **more)
        self.mouse("mouseReleased", *end, button="left", clickCount=1, **more)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        self.value(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.box(selector)
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.mouse("mousePressed", *middle, button="left", clickCount=1)
        self.mouse("mouseReleased", *middle, button="left", clickCount=1)

    def key(self, key: str, text: str = "", modifiers: int = 0) -> None:
        """Press a key."""
        code = {"ArrowRight": 39, "ArrowLeft": 37}.get(
            key, ord(key.upper()) if len(key) == 1 else 0
        )
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.command("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.command("Input.dispatchKeyEvent", type="keyUp", **common)

    def box(self, selector: str) -> dict[str, float]:
        """Where an element is on the screen."""
        box: dict[str, float] = self.value(
            f"(() => {{ const b = document.querySelector({selector!r}).getBoundingClientRect();"
            " return {x: b.x, y: b.y, width: b.width, height: b.height}; })()"
        )
        return box

    def screenshot(self, path: Path) -> None:
        """Save what the page looks like."""
        picture = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        self.value("1")
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Errors, refusals of the page's policy included."""
        self.value("1")
        found = []
        for event in self._browser.events:
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            elif (
                event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
            ):
                found.append(event["params"]["entry"]["text"])
        return found
