"""Install what extras of sureprox need, every file checked against hashes.txt, and then sureprox itself, editable.

.venv/bin/python scripts/install.py cli plots

PyTorch comes first and by itself. Where pip is set up to find a build for CPUs, that one is installed and no package of
CUDA; told the hashes at once, pip would prefer the build of the index, whose hash it can read without a download.
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
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    if code := subprocess.run(command, cwd=ROOT).returncode:
        raise SystemExit(code)


def install_exactly(text: str, directory: Path) -> None:
    """Install the files that these lines of a requirements file name, each with its hashes, and nothing else."""
    listed = directory / "requirements.txt"
    listed.write_text(text)
    pip("install", "--require-hashes", "--no-deps", "--requirement", str(listed))


def preferred_build(name: str, hashes: str, directory: Path) -> str:
    """The line of a requirements file for the build that pip takes without hashes; downloaded, not yet trusted."""
    pinned, *allowed = entry(name, hashes).splitlines(keepends=True)
    pip("download", "--no-deps", "--dest", str(directory), pinned.rstrip("\\\n "))
    (file,) = directory.glob(f"{name}-*")
    return f"{file.as_uri()} \\\n{''.join(allowed)}"


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = requirements(project, sys.argv[1:])
    hashes = HASHES.read_text()
    with tempfile.TemporaryDirectory() as directory:
        install_exactly("".join(entry(name, hashes) for name in TOOLS), Path(directory))
        install_exactly(preferred_build("torch", hashes, Path(directory)), Path(directory))
    pip("install", "--require-hashes", "--constraint", str(HASHES), *wanted)
    pip("install", "--no-deps", "--no-build-isolation", "--editable", ".")


if __name__ == "__main__":
    main()
