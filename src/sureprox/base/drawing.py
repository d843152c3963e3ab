"""The colours of all pictures, how their panels look, and how they are written."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureprox.base.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart; yellow is too pale for lines on white.
ORANGE, SKY, GREEN, BLUE, RED, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
BLACK, GREY = "#000000", "#7F7F7F"


def tidy(panel: "Axes") -> None:
    """A pale grid behind the lines, and no frame above and to the right."""
    panel.grid(True, color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def save_figure(figure: "Figure", path: Path, **options: Any) -> None:
    """A picture that is either whole or absent, in the format that the name ends with."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.removeprefix(".") or "png", **options)
    write_atomically(path, buffer.getvalue())
