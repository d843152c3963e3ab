"""Walk the README and the quick start as a newcomer does: the wheel in a fresh environment, every block typed in order.

    python scripts/first_steps.py                       # builds the wheel, installs it with pip, walks both pages,
                                                        # and installs the extra `sklearn` too
    python scripts/first_steps.py --no-compiler         # the same where no C++ compiler is found
    python scripts/first_steps.py --packages-from-here  # its dependencies are those of this Python: no network

`make`, `pip` and `sureprox advise` are left out: the first two install, and the last measures.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from subprocess import PIPE

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "quick_start.md")
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
LEFT_OUT = (["make"], ["pip"], ["sureprox", "advise"])
DONE = "the block is done\n"
SESSION = f"""
import json, sys
names = {{"__name__": "__main__"}}
for line in sys.stdin:
    exec(json.loads(line), names)
    print({DONE.strip()!r}, flush=True)
"""
TABLE = "size,age,distance,price\n" + "".join(
    f"{i % 7},{i % 5},{i % 11},{3 * (i % 7) - i % 11 + 20}\n" for i in range(60)
)


def main() -> None:
    options = argparse.ArgumentParser(description="Walk the README and the quick start in a fresh environment.")
    options.add_argument("--no-compiler", action="store_true")
    options.add_argument("--packages-from-here", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        python = installed(folder, asked.packages_from_here)
        environment = surroundings(folder, python, asked.no_compiler)
        for page in PAGES:
            walk(page, folder / page.stem, python, environment)
        if not asked.packages_from_here:
            (wheel,) = folder.glob("sureprox-*.whl")
            run([str(python), "-m", "pip", "install", "--quiet", f"{wheel}[sklearn]"], folder, environment)
        run([str(python), "-c", "from sureprox.sklearn import LassoCV"], folder, environment)
    print("the README and the quick start work as printed")


def installed(folder: Path, packages_from_here: bool) -> Path:
    """The Python of a new environment that holds the wheel."""
    environment = surroundings(folder, Path(sys.executable), no_compiler=False)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*build, *(["--no-build-isolation"] if packages_from_here else [])], check=True, env=environment)
    (wheel,) = folder.glob("sureprox-*.whl")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "--quiet"]
    if packages_from_here:
        subprocess.run([*install, "--no-deps", str(wheel)], check=True, env=environment)
        (site,) = (folder / "env").rglob("site-packages")
        (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    else:
        subprocess.run([*install, f"{wheel}[cli,plots]"], check=True, env=environment)
    return python


def surroundings(folder: Path, python: Path, no_compiler: bool) -> dict[str, str]:
    """Nothing of this checkout: only the programs of the environment and of the system, and an empty cache."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SUREPROX"))}
    paths = [str(python.parent)] + ([] if no_compiler else [os.environ.get("PATH", "")])
    return found | {"PATH": os.pathsep.join(paths), "SUREPROX_CACHE": str(folder / "cache"), "CXX": ""}


def walk(page: Path, folder: Path, python: Path, environment: dict[str, str]) -> None:
    """The Python of a page is one session, between whose blocks commands run."""
    folder.mkdir()
    (folder / "houses.csv").write_text(TABLE)
    session = subprocess.Popen(
        [str(python), "-c", SESSION], cwd=folder, env=environment, stdin=PIPE, stdout=PIPE, text=True
    )
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            typed(session, text)
            continue
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if words and not any(words[: len(left)] == left for left in LEFT_OUT):
                run([str(python.with_name(words[0])), *words[1:]], folder, environment)
    session.communicate(timeout=60)


def typed(session: subprocess.Popen[str], text: str) -> None:
    """A block, as if typed; a traceback goes to stderr."""
    assert session.stdin is not None
    assert session.stdout is not None
    session.stdin.write(json.dumps(text) + "\n")
    session.stdin.flush()
    while (line := session.stdout.readline()) and line != DONE:
        print(f"   {line}", end="")
    if line != DONE:
        raise SystemExit("a block of Python failed; its traceback is above")
    print("ok", text.strip().splitlines()[-1])


def run(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    print("ok" if ended.returncode == 0 else ended.returncode, Path(words[0]).name, shlex.join(words[1:]))
    print("".join(f"   {line}\n" for line in ended.stderr.splitlines()), end="")
    if ended.returncode:
        raise SystemExit(f"a command failed:\n{ended.stdout}")


if __name__ == "__main__":
    main()
