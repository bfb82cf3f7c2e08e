"""A picture for notebooks that can be saved as PNG, SVG or HTML."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from os import PathLike
from pathlib import Path

from . import _core
from .errors import InvalidValueError

__all__ = ["Figure"]


class Figure:
    """A picture to show or save.

    A notebook shows a figure that is the last value of a cell. ``save`` writes the format that the
    ending of the file name selects. ``savefig``, ``write_image``, ``write_html`` and ``show``
    exist for scripts written for matplotlib or plotly figures.
    """

    def __init__(
        self,
        drawing: _core.Drawing,
        *,
        width: int = 1200,
        height: int | None = 800,
        scale: float = 1.0,
    ) -> None:
        self._drawing = drawing
        self._width = width
        self._height = height
        self._scale = scale

    @property
    def title(self) -> str:
        """The title of the picture."""
        return self._drawing.title

    def save(self, path: str | PathLike[str], *, theme: str = "system") -> Path:
        """Write the picture to a file, in the format of the name's ending: .png, .svg, .html or
        .htm. A name without an ending gets the ending .png. Returns the path of the file."""
        path = Path(path)
        if not path.suffix:
            path = path.with_name(path.name + ".png")
        suffix = path.suffix.lower()
        if suffix == ".png":
            path.write_bytes(self.to_png(theme=theme))
        elif suffix == ".svg":
            path.write_text(self.to_svg(theme=theme), encoding="utf-8")
        elif suffix in (".html", ".htm"):
            path.write_text(self.to_html(theme=theme), encoding="utf-8")
        else:
            raise InvalidValueError(
                f"unknown picture format for '{path}': use a name that ends in .png, .svg or .html"
            )
        return path

    def to_png(self, *, theme: str = "light") -> bytes:
        """The picture as the content of a PNG file."""
        return self._drawing.png(self._width, self._height, _dark(theme), self._scale)

    def to_svg(self, *, theme: str = "light") -> str:
        """The picture as an SVG document."""
        return self._drawing.svg(self._width, self._height, _dark(theme))

    def to_html(self, *, theme: str = "system") -> str:
        """The picture as a self-contained HTML page."""
        return self._drawing.html(theme)

    def savefig(self, fname: str | PathLike[str], **_: object) -> None:
        """Write a file, as ``save`` does. Further options of matplotlib's ``savefig`` are
        ignored."""
        self.save(fname)

    def write_image(self, file: str | PathLike[str], **_: object) -> None:
        """Write a file, as ``save`` does. Further options of plotly's ``write_image`` are
        ignored."""
        self.save(file)

    def write_html(self, file: str | PathLike[str], **_: object) -> None:
        """Write an HTML page, whatever the ending of the file name is. Further options of plotly's
        ``write_html`` are ignored."""
        Path(file).write_text(self.to_html(), encoding="utf-8")

    def show(self) -> None:
        """Open the picture in a browser, as a temporary HTML file that is not deleted."""
        with tempfile.NamedTemporaryFile(
            "w", suffix=".html", prefix="stormlog-", delete=False, encoding="utf-8"
        ) as page:
            page.write(self.to_html())
        webbrowser.open(Path(page.name).as_uri())

    def _repr_html_(self) -> str:
        # The page is in its own frame, because its content policy and keys must not affect the
        # notebook.
        source = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe srcdoc="{source}" sandbox="allow-scripts" width="100%" height="720" '
            'style="border:0"></iframe>'
        )

    def _repr_png_(self) -> bytes:
        return self.to_png()

    def __repr__(self) -> str:
        return f"<Figure: {self.title}>"


def _dark(theme: str) -> bool:
    """Whether a picture with this theme is dark. With the theme ``system`` it is light."""
    if theme not in ("system", "light", "dark"):
        raise InvalidValueError(f"unknown theme '{theme}': choose system, light or dark")
    return theme == "dark"
