"""The command `sureprox`. This file needs the standard library only; the commands are in `sureprox.cli.app`."""

import sys

from sureprox.errors import SureproxError

EXTRAS = {"typer": "cli", "rich": "cli", "matplotlib": "plots", "tensorboard": "train", "sklearn": "sklearn"}


def main() -> None:
    """Run the command line; whatever is wrong with the input is one line on stderr and exit code 2."""
    try:
        from sureprox.cli.app import app  # typer may be missing, which is one of the errors to report

        app()
    except SureproxError as error:
        _fail(str(error))
    except OSError as error:  # a file that cannot be read or written
        _fail(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        _fail(f"this command needs {package}, which is not installed; run: pip install 'sureprox[{EXTRAS[package]}]'")


def _fail(message: str) -> None:
    print(f"sureprox: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)
