"""The written audit and its errata as one HTML page that needs nothing else, pictures included."""

import base64
import re
from pathlib import Path

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }
pre { background: #f5f5f5; padding: 0.8rem; overflow-x: auto; }
img { max-width: 100%; }
"""


def html(audit: Path, errata: Path) -> str:
    """Both Markdown files; links to the errata lead down the page, and pictures beside them are taken into it."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark").enable("table")
    body = reader.render(audit.read_text(encoding="utf-8")).replace('href="errata.md"', 'href="#errata"')
    body += f'<section id="errata">\n{reader.render(errata.read_text(encoding="utf-8"))}</section>\n'

    def embedded(found: re.Match[str]) -> str:
        picture = base64.b64encode((audit.parent / found[1]).read_bytes()).decode()
        return f'src="data:image/png;base64,{picture}"'

    body = re.sub(r'src="([^":/]+\.png)"', embedded, body)
    head = f'<meta charset="utf-8"><title>sureprox: theory audit</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}</body></html>\n'
