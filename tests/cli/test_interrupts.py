"""Ctrl-C at any moment ends a command without a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sureprox
from sureprox import cli

pytestmark = pytest.mark.usefixtures("interruptible")
SOURCES = Path(sureprox.__file__).parents[1]
INTERRUPTING = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def interrupted_import(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run with a torch that is interrupted while it is imported."""
    (folder / "torch.py").write_text(INTERRUPTING)
    paths = os.pathsep.join([str(folder), str(SOURCES)])
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True, timeout=240
    )


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("command", [["-m", "sureprox", "models"], ["sureprox", "models"]])
def test_an_interrupt_while_libraries_are_loaded_is_exit_code_130_and_one_line(tmp_path, command):
    (tmp_path / "sureprox").write_text("from sureprox.cli import main\nmain()\n")  # as it is installed
    ended = interrupted_import(tmp_path, *command)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "sureprox: interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_other_programs_see_the_interrupt(tmp_path):
    program = "try:\n    import sureprox\nexcept KeyboardInterrupt:\n    print('seen')\n"
    assert interrupted_import(tmp_path, "-c", program).stdout == "seen\n"


def test_an_interrupt_before_the_command_begins_is_exit_code_130(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    with pytest.raises((SystemExit, KeyboardInterrupt)) as ended:  # the latter would end the tests
        cli.main()
    assert ended.value.args == (130,)
    assert capsys.readouterr().err == "sureprox: interrupted\n"


HANDLERS = """
import runpy, signal, sys
loading = runpy.run_path(sys.argv[1])["loading"]
sys.argv = sys.argv[2:]
with loading():
    inside = signal.getsignal(signal.SIGINT)
print(inside is not signal.default_int_handler, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize(("program", "ours"), [("/usr/bin/sureprox", True), ("mine.py", False)])
def test_interrupts_are_handled_again_once_all_is_loaded(program, ours):
    arguments = [sys.executable, "-c", HANDLERS, str(SOURCES / "sureprox" / "_loading.py"), program]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=240)
    assert ended.stdout == f"{ours} True\n"
