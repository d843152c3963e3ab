"""The page: sections, their charts as one block of JSON, style and script, in one file that may fetch nothing."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from sureprox._version import __version__
from sureprox.base.words import plural
from sureprox.report.page.audit_section import audit_section
from sureprox.report.page.battery_section import battery_section
from sureprox.report.page.claims_section import claims_section
from sureprox.report.page.curves_section import curves_section
from sureprox.report.page.gather import Found
from sureprox.report.page.markup import Html, element, join
from sureprox.report.page.section import Section
from sureprox.report.page.sources_section import sources_section
from sureprox.report.page.training_section import training_section

SECTIONS = (claims_section, curves_section, battery_section, audit_section, training_section, sources_section)
SCRIPTS = ("scales.js", "plot.js", "chart.js", "page.js")


def page(found: Found) -> str:
    """The same records give the same page."""
    count = plural(len(found.files), "record file")
    return document([make(found) for make in SECTIONS], f"from {count} below {found.places}")


def document(sections: Sequence[Section], origin: str) -> str:
    """The whole file; `origin` says what it is about."""
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in SCRIPTS)
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    return Template(_asset("page.html")).substitute(
        policy=policy,
        style=style,
        script=script,
        data=json_block([chart.data() for section in sections for chart in section.charts]),
        links=join(element("a", section.title, href=f"#{section.name}") for section in sections),
        lead=element("p", f"sureprox {__version__}, {origin}.", class_="lead"),
        glance=join(_glance(section) for section in sections),
        sections="\n".join(_section(section) for section in sections),
    )


def json_block(content: Any) -> str:
    """JSON that cannot end the script element it stands in, nor begin another."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _section(section: Section) -> Html:
    heading = element("h2", section.title)
    return element("section", heading, section.body, id=section.name, class_="part")


def _glance(section: Section) -> Html:
    return element("a", element("b", section.title), element("span", section.glance), href=f"#{section.name}")


def _asset(name: str) -> str:
    return (files("sureprox.report.page") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What the content security policy of the page allows: this text and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
