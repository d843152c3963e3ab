"""Every file the page was made from, with its fingerprint."""

from sureprox.report.page.gather import Found, fingerprint
from sureprox.report.page.markup import Row, element, join, number, table
from sureprox.report.page.section import Section


def sources_section(found: Found) -> Section:
    rows: list[Row] = []
    for path in found.files:
        rows.append([str(path), number(path.stat().st_size, ",d"), element("code", fingerprint(path))])
    said = element("p", "Nothing on this page was typed by hand: all of it comes from these files.")
    body = join([said, table(("file", "bytes", "sha256 begins with"), rows, "Record files")])
    return Section("sources", "Sources", body, f"{len(rows)} record files")
