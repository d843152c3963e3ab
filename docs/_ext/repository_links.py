"""Links that work in the repository but not on these pages, and names that annotations write in full.

A link to a directory or a Markdown file outside docs/ becomes its text and its path. A type that is documented under
its public name (sureprox.Problem) is found under the name of the module that defines it, too.
"""

import re
from pathlib import Path
from typing import Any

from docutils.nodes import Element, Node
from sphinx.util.nodes import make_refnode

DOCS = Path(__file__).parents[1]
OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./([^)#]+)\)")


def rewrite_links(app: Any, page: str, source: list[str]) -> None:
    def plain(match: re.Match[str]) -> str:
        target = DOCS.parent / match[2]
        if target.is_dir() or target.suffix == ".md":
            return f"`{match[2]}`" if match[1] == match[2] else f"{match[1]} (`{match[2]}`)"
        return match[0]

    source[0] = OUTSIDE.sub(plain, source[0])


def public_name(app: Any, env: Any, node: Element, content: Node) -> Node | None:
    """The reference, under the public name of what it names."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    name = target.rpartition(".")[2]
    domain = env.get_domain("py")
    for full, entry in domain.objects.items():
        if full.startswith("sureprox") and full.rpartition(".")[2] == name and entry.objtype in ("class", "exception"):
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, full)
    return None


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", rewrite_links)
    app.connect("missing-reference", public_name)
    return {"parallel_read_safe": True}
