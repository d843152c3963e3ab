"""The command `sureprox`. This file needs the standard library only; the commands are in `sureprox.cli.app`."""

import sys
import warnings
from typing import Any

from sureprox._loading import INTERRUPTED as INTERRUPTED
from sureprox._loading import TOLD
from sureprox._version import __version__
from sureprox.base.errors import InputError, SureproxError

EXTRAS = {  # what is imported: what to install, by names that every index knows
    "typer": "typer rich",
    "rich": "typer rich",
    "matplotlib": "matplotlib",
    "tensorboard": "tensorboard",
    "sklearn": "scikit-learn",
    "distributed": "dask distributed cryptography",
    "optuna": "optuna",
}


def main() -> None:
    """Run the command line; whatever is wrong with the input is one line on stderr and exit code 2."""
    if sys.argv[1:] == ["--version"]:
        print(f"sureprox {__version__}")
        raise SystemExit(0)
    try:
        with warnings.catch_warnings():
            code = _run(sys.argv[1:] or ["--help"])
    except SureproxError as error:
        _fail(str(error))
    except OSError as error:  # a file that cannot be read or written
        _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        _fail("out of memory; give fewer or smaller problems at a time")
    except KeyboardInterrupt:
        print(TOLD, file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        _fail(f"this command needs {package}, which is not installed; run: pip install {EXTRAS[package]}")
    else:
        raise SystemExit(code)


def _run(arguments: list[str]) -> int:
    """The exit code of a command that came to its end."""
    import typer  # may be missing, which is one of the errors to report

    from sureprox.cli.app import app

    warnings.showwarning = _warn
    usage_error: Any = typer.BadParameter.__mro__[1]  # typer's own or click's, depending on the version of typer
    try:
        return app(arguments, prog_name="sureprox", standalone_mode=False) or 0
    except typer.Abort:
        raise KeyboardInterrupt from None
    except usage_error as error:  # an unknown command or option, or a value that it refuses
        command = "sureprox" if error.ctx is None else error.ctx.command_path
        said = error.format_message().strip().rstrip(".").replace(". Did you", "; did you")
        if not said:  # a group without a command: its help has been shown
            return 0
        raise InputError(f"{said}{' Try:' if said.endswith('?') else '; try:'} {command} --help") from None


def _out_of_memory(error: Exception) -> bool:
    """PyTorch says it in words."""
    words = ("allocate memory", "out of memory", "not enough memory")
    return isinstance(error, MemoryError) or any(part in str(error) for part in words)


def _warn(message: Warning | str, *where: Any, **options: Any) -> None:
    """A warning of a library, or of ours, in one line."""
    print(f"sureprox: {' '.join(str(message).split())}", file=sys.stderr)


def _fail(message: str) -> None:
    print(f"sureprox: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)
