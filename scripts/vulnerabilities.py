"""Are there known vulnerabilities in the versions that constraints.txt pins? Asks the OSV database, as pip-audit does.

    python scripts/vulnerabilities.py

Exit code 0: none is known. 1: some are, one line each. 3: the database cannot be reached, so nothing is known.
Nothing but the names and versions of public packages is sent. `pip-audit -s osv --no-deps --disable-pip -r
constraints.txt` asks the same question, where pip-audit is installed.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SERVICE = "https://api.osv.dev/v1/querybatch"
TIMEOUT = 20.0  # seconds
UNREACHABLE = 3


class UnreachableError(Exception):
    """The database gave no answer that can be used."""


def pinned(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text().splitlines()
    return [(name, version) for name, _, version in (line.partition("==") for line in lines) if version]


def known(packages: list[tuple[str, str]], service: str) -> dict[str, list[str]]:
    """NAME==VERSION: identifiers of the vulnerabilities that the database has for it."""
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in packages]
    request = urllib.request.Request(
        service, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            results: list[dict[str, Any]] = json.load(answer)["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreachableError(f"{service}: {error}") from None
    if len(results) != len(packages):
        raise UnreachableError(f"{service}: {len(results)} answers to {len(packages)} questions")
    return {
        f"{name}=={version}": [str(entry["id"]) for entry in result["vulns"]]
        for (name, version), result in zip(packages, results, strict=True)
        if result.get("vulns")
    }


def main() -> None:
    packages = pinned(ROOT / "constraints.txt")
    try:
        found = known(packages, os.environ.get("SUREPROX_OSV", SERVICE))
    except UnreachableError as reason:
        print(f"not checked: the database of vulnerabilities cannot be reached ({reason})", file=sys.stderr)
        raise SystemExit(UNREACHABLE) from None
    for package, names in found.items():
        print(f"{package}: {', '.join(names)}")
    if found:
        raise SystemExit(1)
    print(f"no known vulnerabilities in {len(packages)} packages")


if __name__ == "__main__":
    main()
