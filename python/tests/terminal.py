"""A real terminal to show the program in, by tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from waiting import PATIENCE_S

TMUX = shutil.which("tmux")


class Terminal:
    """A terminal of its own, driven through tmux."""

    def __init__(
        self,
        folder: Path,
        width: int,
        height: int,
        *arguments: str,
        command: list[str] | None = None,
        **environment: str,
    ) -> None:
        assert TMUX is not None
        self._tmux = [
            TMUX,
            "-L",
            f"stormlog-{os.getpid()}-{time.monotonic_ns()}",
            "-f",
            "/dev/null",
        ]
        variables = [
            f"{name}={value}" for name, value in {"LC_ALL": "C.UTF-8", **environment}.items()
        ]
        command_line = command or [sys.executable, "-m", "stormlog"]
        program = ["env", "-u", "NO_COLOR", *variables, *command_line, *arguments]
        # What the program leaves on the screen, its exit code and the terminal's mode.
        script = (
            '"$@"; echo "left with $?"; stty -a | tr " " "\\n" | grep -x "icanon;\\?" ; exec cat'
        )
        size = ["-x", str(width), "-y", str(height)]
        start = ["-u", "new-session", "-d", *size, "-c", str(folder)]
        subprocess.run([*self._tmux, *start, "sh", "-c", script, "sh", *program], check=True)

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def text(self, *keys: str) -> None:
        """Type text as it is."""
        for key in keys:
            subprocess.run([*self._tmux, "send-keys", "-l", key], check=True)

    def click(self, text: str) -> None:
        """Press the mouse where a text is on the screen."""
        for row, line in enumerate(self.screen().splitlines()):
            if text in line:
                place = f"{line.index(text) + 1};{row + 1}"
                self.text(f"\x1b[<0;{place}M", f"\x1b[<0;{place}m")
                return
        raise AssertionError(f"no {text} in\n{self.screen()}")

    def screen(self, colours: bool = False) -> str:
        """What is on the screen."""
        options = ["capture-pane", "-p", *(["-e"] if colours else [])]
        shown = subprocess.run([*self._tmux, *options], check=True, capture_output=True, text=True)
        return shown.stdout

    def wait_for(self, *texts: str, seconds: float = PATIENCE_S) -> str:
        """Wait until all the texts are on the screen."""
        deadline = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if all(text in screen for text in texts):
                return screen
            assert time.monotonic() < deadline, f"never {texts}:\n{screen}"
            time.sleep(0.05)

    def wait_until_left(self, code: int = 0) -> None:
        """Wait until the program has ended and see that the terminal is as before it."""
        screen = self.wait_for(f"left with {code}", "icanon")
        assert "Overview" not in screen, screen
        assert self.value("#{alternate_on}#{mouse_any_flag}#{cursor_flag}") == "001"

    def program(self) -> int:
        """The process that has the terminal."""
        shell = self.value("#{pane_pid}")
        (child,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(child)

    def value(self, name: str) -> str:
        """What tmux knows of the pane."""
        asked = [*self._tmux, "display-message", "-p", name]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()

    def resize(self, width: int, height: int) -> None:
        """Change the size of the window."""
        subprocess.run(
            [*self._tmux, "resize-window", "-x", str(width), "-y", str(height)], check=True
        )

    def close(self) -> None:
        """End the terminal."""
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)
