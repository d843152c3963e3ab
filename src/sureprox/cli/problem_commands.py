"""The commands that solve, and that say how well: `solve`, `advise`, `evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from sureprox.base.defaults import MAX_ITER
from sureprox.cli.form_options import (
    Classes,
    Delta,
    Device,
    Dtype,
    Engine,
    Files,
    GroupsFile,
    Index,
    Intercept,
    Json,
    Kind,
    Lam,
    LamRatio,
    Level,
    LossOption,
    OnlyNonNegative,
    Smoothing,
    Standardize,
    Target,
    Tol,
    WeightL1,
    WeightL2,
)


def complete_optimizer(incomplete: str) -> list[str]:
    """For shell completion."""
    from sureprox.base.names import NAMED, pretrained_names

    return [name for name in (*NAMED, *pretrained_names()) if name.startswith(incomplete)]


def solve(
    files: Files,
    lam: Lam = None,
    lam_ratio: LamRatio = None,
    kind: Kind = None,
    loss: LossOption = None,
    delta: Delta = None,
    level: Level = None,
    smoothing: Smoothing = None,
    classes: Classes = None,
    l1: WeightL1 = None,
    l2: WeightL2 = None,
    nonnegative: OnlyNonNegative = False,
    groups: GroupsFile = None,
    target: Target = None,
    index: Index = None,
    intercept: Intercept = False,
    standardize: Standardize = False,
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="sure, fista-restart, fista, ista, a pretrained name (sureprox models), or the path of a model.",
            autocompletion=complete_optimizer,
        ),
    ] = None,
    tol: Tol = 1e-6,
    max_iter: Annotated[int, typer.Option(help="Maximum number of iterations.")] = MAX_ITER,
    certify: Annotated[
        bool,
        typer.Option("--certify/--no-certify", help="Run FISTA beside the optimizer and guarantee its rate, or not."),
    ] = True,
    audit: Annotated[
        bool, typer.Option("--audit", help="Guarantee by audits: one gradient for each iteration, for any problem.")
    ] = False,
    cheap: Annotated[bool, typer.Option("--cheap", help="Use a cheaper guarantee: one method at a time.")] = False,
    polish: Annotated[
        bool,
        typer.Option("--polish/--no-polish", help="Stop LASSO problems as soon as their support is known, or not."),
    ] = True,
    rigorous: Annotated[
        bool, typer.Option("--rigorous", help="Bound the rounding errors of the gaps too (squares, logistic).")
    ] = False,
    engine: Engine = "auto",
    device: Device = "auto",
    dtype: Dtype = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Where to write the solutions; solutions.npz by default.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Also write a row for each problem, with its coefficients if FILE is a table."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Also write a page about the solve: status, gaps, supports, time."),
    ] = None,
    shards: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Solve any number of problems (files, a directory, or large .npy) shard by shard into DIR.",
        ),
    ] = None,
    dask: Annotated[bool, typer.Option("--dask", help="With --shards: on all cores, by local Dask workers.")] = False,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="With --shards: on the Dask cluster of this scheduler.")
    ] = None,
    chunk: Annotated[
        int | None, typer.Option(min=1, help="With --shards: problems solved at a time; by memory by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Solve the problems of a file, each with a certificate.

    A table needs the weight of the penalty, and the target
    unless it is the last column:

    sureprox solve houses.csv --target price --lam-ratio 0.1 --intercept

    With --shards, give the same command again to continue an interrupted run.

    Exit codes:
    0 every problem converged
    1 some did not; the results are written all the same
    2 the input or an option cannot be used; nothing is written
    130 interrupted
    """
    from sureprox.base.errors import InputError
    from sureprox.cli import choices
    from sureprox.cli.solve import Request, run

    given = [name for name, there in (("audit", audit), ("cheap", cheap), ("no-certify", not certify)) if there]
    if len(given) > 1:
        raise InputError(f"--{given[0]} and --{given[1]} are given; choose one")
    guarantee: bool | str = certify and (given[0] if given else "auto")
    request = Request(optimizer, tol, max_iter, guarantee, choices.chosen_device(device), polish, engine, rigorous)
    asked = choices.asked_for(
        lam=lam,
        lam_ratio=lam_ratio,
        kind=kind,
        loss=loss,
        delta=delta,
        level=level,
        smoothing=smoothing,
        classes=classes,
        l1=l1,
        l2=l2,
        nonnegative=nonnegative,
        groups=groups,
        dtype=dtype,
    )
    table = {"target": target, "index": index, "intercept": intercept, "standardize": standardize}
    if rigorous and shards is not None:
        raise InputError("--rigorous is not known to --shards; leave one of them out")
    if shards is None:
        if dask or scheduler or chunk:
            raise InputError("--dask, --scheduler and --chunk go with --shards DIR; give it too")
        solutions = out or Path("solutions.npz")
        choices.require_writable([solutions, csv, report], files)
        loaded = choices.loaded(files, table, asked)
        run(loaded, request, solutions, csv, report, as_json=json)
        return
    for option, value in {"out": out, "csv": csv, "report": report, **table}.items():
        if value:
            raise InputError(f"--{option} does not go with --shards; leave it out")
    if dask and scheduler:
        raise InputError("--dask and --scheduler are given; choose one")
    from sureprox.cli.solve_many import run as run_many

    run_many(
        files,
        request,
        shards,
        cluster="local" if dask else scheduler,
        chunk=chunk,
        as_json=json,
        **asked,
    )


def advise(
    files: Files,
    lam: Lam = None,
    lam_ratio: LamRatio = None,
    kind: Kind = None,
    loss: LossOption = None,
    delta: Delta = None,
    level: Level = None,
    smoothing: Smoothing = None,
    classes: Classes = None,
    l1: WeightL1 = None,
    l2: WeightL2 = None,
    nonnegative: OnlyNonNegative = False,
    groups: GroupsFile = None,
    target: Target = None,
    index: Index = None,
    intercept: Intercept = False,
    standardize: Standardize = False,
    tol: Tol = 1e-6,
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="Time limit of all measurements together.")] = 20.0,
    sample: Annotated[int, typer.Option(help="Maximum number of problems solved to measure.")] = 1024,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Pretrained name or path of a model; repeatable. The suitable ones by default.",
            autocompletion=complete_optimizer,
        ),
    ] = None,
    engine: Engine = "auto",
    device: Device = "auto",
    dtype: Dtype = "auto",
    json: Json = False,
) -> None:
    """Say which solver is fastest for the problems of a file.

    Times our optimizers and, where installed, scikit-learn, SciPy, celer
    and skglm on a sample of the problems, on this machine. All must reach
    the same certified gap.
    """
    from sureprox.cli import choices
    from sureprox.cli.advise import run

    where = choices.chosen_device(device)
    asked = choices.asked_for(
        lam=lam,
        lam_ratio=lam_ratio,
        kind=kind,
        loss=loss,
        delta=delta,
        level=level,
        smoothing=smoothing,
        classes=classes,
        l1=l1,
        l2=l2,
        nonnegative=nonnegative,
        groups=groups,
        dtype=dtype,
    )
    table = {"target": target, "index": index, "intercept": intercept, "standardize": standardize}
    loaded = choices.loaded(files, table, asked)
    run(loaded, where, tol=tol, budget=budget, sample=sample, models=model, engine=engine, as_json=json)


def evaluate(
    model: Annotated[
        str,
        typer.Argument(help="Pretrained name, or the path of a model.", autocompletion=complete_optimizer),
    ],
    family: Annotated[
        str | None,
        typer.Option(help="lasso, logistic, sure-lasso, elastic-net, huber, ...; that of the card by default."),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="ind, s=NUMBER (start moved) or t=NUMBER (objective moved); repeatable. ind, s=10, t=10."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another model to measure beside it; repeatable.", autocompletion=complete_optimizer),
    ] = None,
    instances: Annotated[int, typer.Option(min=1, help="Number of problems.")] = 16,
    iterations: Annotated[int, typer.Option(min=1, help="Maximum number of iterations.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the problems and starting points.")] = 0,
    device: Device = "auto",
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float64",
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Keep the record.")] = None,
    json: Json = False,
) -> None:
    """Measure a model on fresh problems, against FISTA and other models.

    Counts the iterations to a relative gap of 1e-3, 1e-6 and 1e-9: on
    problems as in training, from a start moved by s, and with an objective
    moved by t.
    """
    from sureprox.cli import choices
    from sureprox.cli.evaluate import run
    from sureprox.evaluation.battery import Plan

    if choices.chosen_dtype(dtype) is None:
        dtype = "float64"
    choices.require_writable([out])
    plan = Plan(batch=instances, most=iterations, seed=seed, dtype=dtype)
    where = choices.chosen_device(device)
    run(model, family, scenario or [], plan, where, out, against=against or [], to_json=json)
