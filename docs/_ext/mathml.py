"""Formulas as MathML, which every browser draws by itself: the pages need no script and no network for them."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

BAR = re.compile(r"<mo[^>]*>&#x0007C;</mo>")


def drawn(formula: str, display: str = "inline") -> str:
    """MathML; bars are those of a norm, not operators with space around them."""
    return BAR.sub('<mo lspace="0" rspace="0" stretchy="false">|</mo>', convert(formula, display=display))


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(drawn(node.astext()))
    raise nodes.SkipNode


def display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{drawn(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True}
