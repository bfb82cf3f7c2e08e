"""Make the pictures of the terminal UI: the real thing in tmux, drawn as SVG.

    python docs/make_tui_pictures.py TRACES

TRACES is the folder with the h200_*.jsonl.gz recordings. Text stays text; lines, bars and
braille are drawn as shapes, because fonts differ in how they draw these.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "python" / "tests"))

from make_gallery import four_ranks  # noqa: E402
from terminal import Terminal  # noqa: E402

PICTURES = DOCS / "pictures"
COLUMNS, ROWS = 110, 32
WIDTH, HEIGHT = 8, 17
FOREGROUND, BACKGROUND = "#d8dee9", "#14181f"
SIXTEEN = (
    "#3b4252 #e06c75 #98c379 #e5c07b #61afef #c678dd #56b6c2 #d8dee9"
    " #6b7686 #ff7b86 #b5e08f #ffd68a #7cc4ff #dd9bf0 #7fd6df #ffffff"
).split()
# Which of left, right, up and down a character of a frame reaches.
FRAMES = {
    "─": "lr",
    "│": "ud",
    "┌": "rd",
    "┐": "ld",
    "└": "ru",
    "┘": "lu",
    "━": "lr",
    "╍": "lr",
    "┈": "lr",
}
# The bits of a braille character, by column and row of its dots.
BRAILLE = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))


@dataclass(frozen=True)
class Style:
    """How a character is drawn."""

    colour: str = FOREGROUND
    background: str = BACKGROUND
    bold: bool = False
    dim: bool = False
    reversed: bool = False

    def changed(self, code: int) -> Style:
        """This style after one number of an escape sequence."""
        match code:
            case 0:
                return Style()
            case 1:
                return replace(self, bold=True)
            case 2:
                return replace(self, dim=True)
            case 7:
                return replace(self, reversed=True)
            case 39:
                return replace(self, colour=FOREGROUND)
            case 49:
                return replace(self, background=BACKGROUND)
            case _ if 30 <= code <= 37:
                return replace(self, colour=SIXTEEN[code - 30])
            case _ if 90 <= code <= 97:
                return replace(self, colour=SIXTEEN[code - 82])
            case _ if 40 <= code <= 47:
                return replace(self, background=SIXTEEN[code - 40])
        return self

    @property
    def colours(self) -> tuple[str, str]:
        """Of the character and of what is behind it."""
        pair = (self.colour, self.background)
        return (pair[1], pair[0]) if self.reversed else pair


def cells(screen: str) -> list[list[tuple[str, Style]]]:
    """The characters of each row with their styles."""
    rows, style = [], Style()
    for line in screen.splitlines():
        row: list[tuple[str, Style]] = []
        for part in re.split(r"(\x1b\[[\d;]*m)", line):
            if part.startswith("\x1b["):
                for code in part[2:-1].split(";"):
                    style = style.changed(int(code or 0))
            else:
                row.extend((character, style) for character in part)
        rows.append(row + [(" ", Style())] * (COLUMNS - len(row)))
    return rows


def shapes(character: str, left: float, top: float) -> list[tuple[float, float, float, float]]:
    """Rectangles that make up a character; none for one that is written as text."""
    middle, centre = left + WIDTH / 2, top + HEIGHT / 2
    if character in FRAMES:
        sides = {
            "l": (left, centre - 0.5, WIDTH / 2 + 0.5, 1.0),
            "r": (middle - 0.5, centre - 0.5, WIDTH / 2 + 0.5, 1.0),
            "u": (middle - 0.5, top, 1.0, HEIGHT / 2 + 0.5),
            "d": (middle - 0.5, centre - 0.5, 1.0, HEIGHT / 2 + 0.5),
        }
        return [sides[side] for side in FRAMES[character]]
    if "\u2581" <= character <= "\u2588":
        height = HEIGHT * (ord(character) - 0x2580) / 8
        return [(left, top + HEIGHT - height, WIDTH, height)]
    if "\u2800" <= character <= "\u28ff":
        bits = ord(character) - 0x2800
        dots = [place for bit, place in enumerate(BRAILLE) if bits >> bit & 1]
        width, height = WIDTH / 2, HEIGHT / 4
        return [
            (left + x * width + 0.6, top + y * height + 0.8, width - 1.2, height - 1.6)
            for x, y in dots
        ]
    return []


def to_svg(screen: str, title: str) -> str:
    """A picture of a screen that tmux has captured with its colours."""
    boxes: dict[tuple[str, float], list[str]] = {}
    texts: list[str] = []

    def fill(colour: str, opacity: float, box: tuple[float, float, float, float]) -> None:
        x, y, width, height = (f"{value:.1f}".rstrip("0").rstrip(".") for value in box)
        boxes.setdefault((colour, opacity), []).append(f"M{x} {y}h{width}v{height}h-{width}z")

    for number, row in enumerate(cells(screen)):
        top = 10.0 + number * HEIGHT
        run: tuple[int, str, Style] | None = None
        for place, (character, style) in enumerate([*row, ("\0", Style())]):
            left = 10.0 + place * WIDTH
            colour, background = style.colours
            if character != "\0" and background != BACKGROUND:
                fill(background, 1.0, (left, top, WIDTH, HEIGHT))
            drawn = shapes(character, left, top)
            for box in drawn:
                fill(colour, 0.6 if style.dim else 1.0, box)
            is_text = not drawn and character not in " \0\u2800"
            if run and is_text and run[2] == style:
                run = (run[0], run[1] + character, style)
                continue
            if run:
                texts.append(text(run, top))
            run = (place, character, style) if is_text else None
    width, height = COLUMNS * WIDTH + 20, ROWS * HEIGHT + 20
    painted = [
        f'<path fill="{colour}"{f" opacity={chr(34)}{opacity}{chr(34)}" if opacity < 1 else ""} d="{"".join(paths)}"/>'
        for (colour, opacity), paths in boxes.items()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
            ' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
            *painted,
            *texts,
            "</svg>\n",
        ]
    )


def text(run: tuple[int, str, Style], top: float) -> str:
    """Characters of one style, each in its cell whatever the font."""
    place, characters, style = run
    left = 10 + place * WIDTH
    more = ' font-weight="bold"' if style.bold else ""
    more += ' opacity="0.6"' if style.dim else ""
    return (
        f'<text x="{left}" y="{top + HEIGHT - 4:.0f}" textLength="{len(characters) * WIDTH}"'
        f' fill="{style.colours[0]}"{more}>{escape(characters)}</text>'
    )


def main() -> None:
    """Make all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    traces: Path = parser.parse_args().traces
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run").mkdir()
        four_ranks(traces, folder / "run")
        shown = Terminal(folder, COLUMNS, ROWS, "tui", "run")
        try:
            shown.wait_for("sessions", "issues, ", seconds=120)

            def save(what: str, title: str) -> None:
                path = PICTURES / f"tui-{what}.svg"
                path.write_text(to_svg(shown.screen(colours=True), title))
                print(path)

            save("overview", "The terminal UI: what is open, what is wrong with it, and its memory")
            shown.keys("4")
            shown.wait_for("Findings", "Evidence")
            save("diagnostics", "The terminal UI: ranks, findings, evidence and advice")
            shown.keys("j", "Enter")
            shown.wait_for("device used: ", "has grown by")
            save("timeline", "The terminal UI: a rank's timeline with the cursor at a finding")
            shown.keys("q")
        finally:
            shown.close()


if __name__ == "__main__":
    main()
