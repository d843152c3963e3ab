"""How the curves look: told apart by colour, by dashes and by markers, so that any one of the three is enough."""

from dataclasses import dataclass
from itertools import cycle
from typing import Any

from sureprox.base.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

SOLID: Any = "solid"
DOTTED, DASHED, LONG = (0, (1, 1.2)), (0, (4, 2)), (0, (8, 2))
DASH_DOT, DASH_DOT_DOT = (0, (5, 1.5, 1, 1.5)), (0, (5, 1.5, 1, 1.5, 1, 1.5))


@dataclass(frozen=True)
class Style:
    colour: str
    dashes: Any
    marker: str
    width: float = 1.6


BY_LABEL = {  # who appears in many figures looks the same in all of them
    "Sure": Style(GREEN, SOLID, "*", 2.6),
    "Sure light": Style(GREEN, DASHED, "p"),
    "GO-Math-L2O": Style(RED, SOLID, "o", 2.2),
    "L2O-PA": Style(BLUE, LONG, "s"),
    "FISTA with restart": Style(BLACK, DASH_DOT, "D"),
    "FISTA": Style(GREY, DASHED, "v"),
    "ISTA": Style(GREY, DOTTED, "^"),
    "Adam": Style(ORANGE, DASHED, "<"),
    "AdamHD": Style(ORANGE, DASH_DOT_DOT, ">"),
    "L2O-DM": Style(PURPLE, DASHED, "P"),
    "RNNprop": Style(GREEN, DASH_DOT_DOT, "X"),
    "Ada-LISTA": Style(SKY, LONG, "h"),
}
OTHERS = (  # for the rest, in the order in which they appear
    Style(RED, SOLID, "o"),
    Style(BLUE, LONG, "s"),
    Style(GREEN, DASHED, "^"),
    Style(PURPLE, DASH_DOT_DOT, "X"),
    Style(ORANGE, SOLID, "v"),
    Style(SKY, DASHED, "P"),
    Style(GREY, LONG, "h"),
    Style("#8C510A", DASH_DOT, "*"),
)


def styles(labels: list[str]) -> dict[str, Style]:
    """A style for each label of a figure."""
    rest = cycle(OTHERS)
    return {label: BY_LABEL[label] if label in BY_LABEL else next(rest) for label in labels}
