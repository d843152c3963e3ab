"""What figures need, computed by the workers of a Dask cluster: each piece into the file where a reproduction seeks it.

Step sizes first, since curves depend on them; before both the optimal values of their problems, each once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from sureprox.base.cluster import map_on
from sureprox.base.connection import connected
from sureprox.evaluation import tuning
from sureprox.evaluation.contestants import UnavailableError
from sureprox.evaluation.figures import FigureSpec, Line
from sureprox.evaluation.reproduction import DataKey, Reproduction, Request

Tuned = tuple[str, str]  # optimizer, family


@dataclass(frozen=True)
class Piece:
    """One task: a curve, step sizes or optimal values, and how a worker gets at the reproduction it belongs to."""

    request: Request
    work: Path
    device: str
    weights: Path | None
    line: Line | None = None
    tuned: Tuned | None = None
    data: DataKey | None = None


def compute_ahead(
    reproduction: Reproduction,
    specs: Sequence[FigureSpec],
    cluster: Any,
    heard: Callable[[Line, int, int], None] = lambda line, done, total: None,
) -> int:
    """Let a cluster (as in `solve_many`) compute the curves of these figures that are not on disk; how many it did.

    `reproduction.figure` then finds them, and has the same numbers as without. Workers need to see its directory, and
    that of its weights, under the same paths, and have the same kind of device. `heard`: after each curve.
    """
    lines = list({(line.optimizer, line.scenario): line for spec in specs for line in spec.lines}.values())
    untuned = _untuned(reproduction, lines)
    if not untuned and not _pending(reproduction, lines):
        return 0
    with connected(cluster) as client:
        _all(client, reproduction, [{"data": reproduction.tuning_data(family)} for _, family in untuned])
        _all(client, reproduction, [{"tuned": pair} for pair in untuned])
        pending = _pending(reproduction, lines)
        _all(client, reproduction, [{"data": reproduction.curve_data(line)} for line in pending])
        pieces = [_piece(reproduction, line=line) for line in pending]
        for done, _ in enumerate(map_on(client, compute, pieces)):
            heard(pending[done], done + 1, len(pending))
    return len(pending)


def compute(piece: Piece) -> None:
    """On a worker: what is on disk already, by a worker that died before it could say so, is left alone."""
    if torch.device(piece.device).type == "cpu":
        torch.set_num_threads(1)  # there are others beside this one
    work = _reproduction(piece.request, piece.work, piece.device, piece.weights)
    try:
        if piece.data is not None:
            work.dataset(piece.data)
        if piece.tuned is not None:
            work.tuning(*piece.tuned)
        if piece.line is not None:
            work.curve(piece.line)
    except UnavailableError:
        return  # the figure says so, and why


@lru_cache(maxsize=1)
def _reproduction(request: Request, work: Path, device: str, weights: Path | None) -> Reproduction:
    """One for all tasks of a worker, so that problems are drawn and models are loaded once."""
    return Reproduction(request, work, torch.device(device), weights)


def _piece(reproduction: Reproduction, **what: Any) -> Piece:
    weights = None if reproduction.weights is None else reproduction.weights.absolute()
    return Piece(reproduction.request, reproduction.work.absolute(), str(reproduction.device), weights, **what)


def _untuned(reproduction: Reproduction, lines: Sequence[Line]) -> list[Tuned]:
    """Optimizers whose step sizes have to be chosen first."""
    pairs = sorted({(line.optimizer, line.scenario.family) for line in lines if line.optimizer in tuning.GRIDS})
    return [pair for pair in pairs if not reproduction.tuning_file(*pair).exists()]


def _pending(reproduction: Reproduction, lines: Sequence[Line]) -> list[Line]:
    """Curves that are not on disk, without those that cannot be computed."""
    found = []
    for line in lines:
        try:
            if not reproduction.curve_file(line).exists():
                found.append(line)
        except UnavailableError:
            continue
    return found


def _all(client: Any, reproduction: Reproduction, what: Sequence[dict[str, Any]]) -> None:
    """Wait for all of these pieces, each once."""
    pieces = dict.fromkeys(_piece(reproduction, **each) for each in what)
    for _ in map_on(client, compute, pieces):
        pass
