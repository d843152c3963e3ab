"""Install what extras of sureprox need, every file checked against hashes.txt, and then sureprox itself, editable.

.venv/bin/python scripts/install.py cli plots
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HASHES = ROOT / "hashes.txt"
TOOLS = ("pip", "setuptools")  # those of Python may be too old: pip reads hashes in constraints since 26
OWN = re.compile(r"sureprox\[([\w,]+)\]")  # an extra that asks for others


def requirements(project: dict[str, Any], extras: list[str]) -> list[str]:
    """What the project and these extras ask for, of other packages."""
    optional = project["optional-dependencies"]
    found = dict.fromkeys(project["dependencies"])
    for extra in extras:
        if extra not in optional:
            raise SystemExit(f"there is no extra {extra!r}; choose of {', '.join(sorted(optional))}")
        for entry in optional[extra]:
            own = OWN.fullmatch(entry)
            found |= dict.fromkeys(requirements(project, own[1].split(",")) if own else [entry])
    return list(found)


def entry(name: str, hashes: str) -> str:
    """The lines of hashes.txt about a package."""
    start = hashes.index(f"\n{name}==") + 1
    return re.match(r"(.* \\\n)*.*\n", hashes[start:])[0]  # type: ignore[index]


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    if code := subprocess.run(command, cwd=ROOT).returncode:
        raise SystemExit(code)


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = requirements(project, sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        tools = Path(directory) / "tools.txt"
        tools.write_text("".join(entry(name, HASHES.read_text()) for name in TOOLS))
        pip("--require-hashes", "--no-deps", "--requirement", str(tools))
    pip("--require-hashes", "--constraint", str(HASHES), *wanted)
    pip("--no-deps", "--no-build-isolation", "--editable", ".")


if __name__ == "__main__":
    main()
