"""hashes.txt: the sha256 of every file of the versions that constraints.txt and constraints-cuda.txt pin.

    python scripts/hashes.py               write hashes.txt; run it after a change of either file
    python scripts/hashes.py WHEEL ...     also accept these files

The hashes are those that the package index lists. Of torch also builds from other places are accepted, such as those
for CPUs that PyTorch itself publishes: give the files once, and they stay as long as the version does.
"""

import hashlib
import html
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PINS = ("constraints.txt", "constraints-cuda.txt")
TARGET = ROOT / "hashes.txt"
INDEX = "https://pypi.org/simple/"
TIMEOUT = 60.0  # seconds
BUILT_ELSEWHERE = ("torch",)
OLD = re.compile(r"cp(2\d+|3\d|310)|pp\d+|graalpy\d+")  # interpreters that sureprox does not support
LINK = re.compile(r'href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')
HEAD = """\
# The files that make demo and make test may install; pip refuses any other. Written by scripts/hashes.py from the pins
# of constraints.txt and constraints-cuda.txt.
"""

Pins = dict[str, str]
Hashes = dict[str, list[str]]


def pinned() -> Pins:
    """Package: version, of all that is pinned."""
    lines = [line for name in PINS for line in (ROOT / name).read_text().splitlines()]
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def listed(text: str) -> tuple[Pins, Hashes]:
    """What hashes.txt says: package: version, and package: hashes."""
    versions: Pins = {}
    hashes: Hashes = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(\S+)==(\S+) \\", line):
            name = match[1]
            versions[name], hashes[name] = match[2], []
        elif match := re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})( \\)?", line):
            hashes[name].append(match[1])
        elif not line.startswith("#"):
            raise ValueError(f"hashes.txt has a line that is none of its own: {line!r}")
    return versions, hashes


def belongs(file: str, name: str, version: str) -> bool:
    """Whether it is a file of this version that a supported interpreter could install."""
    try:
        if file.endswith(".whl"):
            found, number, _, tags = parse_wheel_filename(file)
            usable = any(tag.abi == "abi3" or not OLD.fullmatch(tag.interpreter) for tag in tags)
        else:
            (found, number), usable = parse_sdist_filename(file), True
    except (InvalidWheelFilename, InvalidSdistFilename, ValueError):
        return False
    return usable and found == canonicalize_name(name) and number == Version(version)


def asked(pin: tuple[str, str]) -> list[str]:
    """The hashes that the index has for a pinned version."""
    name, version = pin
    request = urllib.request.Request(f"{INDEX}{canonicalize_name(name)}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        page = html.unescape(answer.read().decode())
    found = sorted({digest for file, digest in LINK.findall(page) if belongs(file, name, version)})
    if not found:
        raise SystemExit(f"{INDEX} has no file of {name} {version}; pin another version")
    return found


def main() -> None:
    pins = pinned()
    before = listed(TARGET.read_text()) if TARGET.exists() else ({}, {})
    with ThreadPoolExecutor(8) as threads:
        hashes: Hashes = dict(zip(pins, threads.map(asked, pins.items()), strict=True))
    for name in BUILT_ELSEWHERE:
        if before[0].get(name) == pins[name]:
            hashes[name] = sorted({*hashes[name], *before[1][name]})
    for path in map(Path, sys.argv[1:]):
        name, number, _, _ = parse_wheel_filename(path.name)
        if name not in BUILT_ELSEWHERE or number.public != pins[name]:
            raise SystemExit(
                f"{path.name} is no build of {', '.join(f'{each} {pins[each]}' for each in BUILT_ELSEWHERE)}"
            )
        hashes[name] = sorted({*hashes[name], hashlib.sha256(path.read_bytes()).hexdigest()})
    entries = [
        f"{name}=={version} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in hashes[name])
        for name, version in pins.items()
    ]
    TARGET.write_text(HEAD + "\n".join(entries) + "\n")
    print(f"{TARGET.name}: {sum(map(len, hashes.values())):,} files of {len(pins)} packages")


if __name__ == "__main__":
    main()
