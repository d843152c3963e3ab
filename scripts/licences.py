"""docs/licences.md: the licence of every package in constraints.txt, as its own metadata declares it.

    python scripts/licences.py            write docs/licences.md
    python scripts/licences.py --check    only say whether it is up to date, and whether every licence is known

A pinned package that is not installed here keeps the row it has. Every licence must be one of `PERMISSIVE` or
`DEVELOPMENT`.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
PERMISSIVE = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib",
}  # fmt: skip
DEVELOPMENT = {"LGPL"}  # accepted too of what the tests alone are installed with
# What packages without a licence expression write, in the field of the licence or among their classifiers.
SPELLINGS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd (3-clause)": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "bsd license": "BSD",
    "gnu library or lesser general public license (lgpl)": "LGPL",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
HEAD = """# Licences

What sureprox and its tools are installed with, at the versions of `constraints.txt`. `import sureprox` needs torch,
numpy and safetensors and what these need; everything else belongs to an extra or to the tests. The licences are those
that the packages declare. `MPL-2.0` asks for changes to its own files to be published, and no file of theirs is changed
or shipped here; `LGPL` is that of a tool of the tests alone (benchopt's client of GitHub). Written by
`scripts/licences.py`; a test compares it with what is installed.

| package | version | licence | wanted by |
| --- | --- | --- | --- |
"""


def pinned() -> dict[str, str]:
    """Package: version, as constraints.txt says."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def declared(name: str) -> str:
    """The licence that the metadata of an installed package declares, in the names of SPDX; "?" if it is not known."""
    about = distribution(name).metadata
    if expression := about.get("License-Expression"):
        return str(expression)
    field = str(about.get("License") or "").strip().splitlines()
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if "License ::" in line]
    for text in (*field[:1], *classifiers):
        known = SPELLINGS.get(text.lower(), text)
        if parts(known) <= PERMISSIVE | DEVELOPMENT:
            return known
    return "?"


def parts(licence: str) -> set[str]:
    """The licences in an expression such as `MIT AND (BSD-3-Clause OR Apache-2.0)`."""
    return {part.strip(" ()") for part in re.split(r" (?:AND|OR) ", licence)}


def wanted_by(names: list[str]) -> dict[str, str]:
    """Package: the extra of sureprox that names it, or the packages that do."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reasons: dict[str, list[str]] = {canonicalize_name(name): [] for name in names}
    groups = {"sureprox": project["dependencies"]}
    groups |= {f"sureprox[{extra}]": wanted for extra, wanted in project["optional-dependencies"].items()}
    for group, wanted in groups.items():
        for text in wanted:
            reasons.get(canonicalize_name(Requirement(text).name), []).append(group)
    direct = {name for name, groups in reasons.items() if groups}
    for name in names:
        for text in _requirements(name):
            need = Requirement(text)
            key = canonicalize_name(need.name)
            if key in reasons and key not in direct and (need.marker is None or need.marker.evaluate({"extra": ""})):
                reasons[key].append(name)
    return {name: ", ".join(reasons[canonicalize_name(name)]) for name in names}


def _requirements(name: str) -> list[str]:
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []


def rows(page: str) -> dict[str, tuple[str, str, str]]:
    """Package: version, licence and who wants it, as a page says."""
    found = re.findall(r"^\| (\S+) \| (\S+) \| (.+?) \| (.*?) \|$", page, flags=re.MULTILINE)
    return {
        name: (version, licence, reason) for name, version, licence, reason in found[2:]
    }  # below the two of the head


def made(old: str) -> str:
    """The page, given the one there is."""
    before, versions = rows(old), pinned()
    reasons = wanted_by(list(versions))
    lines = []
    for name, version in versions.items():
        try:
            licence, reason = declared(name), reasons[name] or "nothing that is installed here"
        except PackageNotFoundError:
            licence, reason = before.get(name, (version, "?", ""))[1:]
        lines.append(f"| {name} | {version} | {licence} | {reason} |\n")
    return HEAD + "".join(lines)


def unknown(page: str) -> list[str]:
    """Packages whose licence is none of those accepted."""
    accepted = PERMISSIVE | DEVELOPMENT
    return [f"{name}: {licence}" for name, (_, licence, _) in rows(page).items() if not parts(licence) <= accepted]


def main() -> None:
    old = PAGE.read_text() if PAGE.exists() else ""
    new = made(old)
    if bad := unknown(new):
        raise SystemExit(f"no known permissive licence: {', '.join(bad)}")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(new)
    elif new != old:
        raise SystemExit(f"{PAGE.name} is not up to date; run: python scripts/licences.py")
    print(f"{len(rows(new))} packages, every one with a known permissive licence")


if __name__ == "__main__":
    main()
