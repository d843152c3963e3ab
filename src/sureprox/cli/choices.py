"""What several commands let the user choose: device, precision, optimizer, and where results go."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import InputError
from sureprox.optimizers import FISTA
from sureprox.problems import Problem
from sureprox.solve.solve import default_optimizer
from sureprox.sources.problem_files import Asked, Loaded, read_groups, read_problem

DTYPES = {"auto": None, "float32": torch.float32, "float64": torch.float64}


def chosen_device(name: str) -> torch.device:
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device is {name!r}; choose one of auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device is 'cuda', but torch finds no GPU here; use --device cpu")
    return torch.device("cuda" if torch.cuda.is_available() and name != "cpu" else "cpu")


def chosen_weights(directory: Path | None) -> Path | None:
    """A directory of models, which must be there: otherwise those of the package would be taken without a word."""
    if directory is not None and not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise InputError(f"--weights: {directory} {what}; give the directory that holds KIND/NAME.safetensors")
    return directory


def chosen_places(cluster: str | None) -> str:
    """Where tasks run, in words."""
    if cluster is None:
        return "here"
    return "on all cores" if cluster == "local" else f"on {cluster}"


def chosen_dtype(name: str) -> torch.dtype | None:
    if name not in DTYPES:
        raise InputError(f"dtype is {name!r}; choose one of {', '.join(DTYPES)}")
    return DTYPES[name]


def name_of(optimizer: str | None, problem: Problem) -> str:
    """What a summary calls it."""
    if optimizer is not None:
        return optimizer
    default = default_optimizer(problem)
    if isinstance(default, FISTA):
        return "fista-restart" if default.restart else "fista"
    return getattr(default, "kind", type(default).__name__)


def numbers(option: str, text: str | None) -> list[float] | float | None:
    """A number, or several with commas between them."""
    if text is None:
        return None
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} is {text!r}; give a number, or several with commas between them") from None
    return found if len(found) > 1 else found[0]


def require_writable(targets: Sequence[Path | None], sources: Sequence[Path] = ()) -> None:
    """Refuse what cannot be written, before any work; nothing is left behind."""
    given = [target for target in targets if target is not None]
    for target in given:
        if target.is_dir():
            raise InputError(f"cannot write {target}: it is a directory; give the name of a file")
        if not target.parent.is_dir():
            raise InputError(f"cannot write {target}: there is no directory {target.parent}; make it first")
        if any(target.resolve() == source.resolve() for source in sources):
            raise InputError(f"{target} would be written over what is read; choose another name")
        try:
            tempfile.TemporaryFile(dir=target.parent).close()
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror}; choose another place") from None
    if len({target.resolve() for target in given}) < len(given):
        raise InputError(f"{given[0]} is given for two results; choose different names")


def loaded(files: Sequence[Path], table: dict[str, Any], asked: dict[str, Any]) -> Loaded:
    """The problems of these files, understood as `asked` (see `Asked`), and as `table` says if they are one."""
    return read_problem(files, **table, **asked)


def asked_for(
    *,
    lam: str | None,
    lam_ratio: str | None,
    l1: str | None,
    l2: str | None,
    groups: Path | None,
    dtype: str,
    **others: Any,
) -> dict[str, Any]:
    """The options of `Asked` from those of a command; checked, as far as they can be without the arrays."""
    options = others | {
        "lam": numbers("--lam", lam),
        "lam_ratio": numbers("--lam-ratio", lam_ratio),
        "l1": numbers("--l1", l1),
        "l2": numbers("--l2", l2),
        "groups": None if groups is None else read_groups(groups),
        "dtype": chosen_dtype(dtype),
    }
    Asked.of(options)
    return options
