"""One function per command. What a command needs is imported inside it, so that --help stays quick."""

from pathlib import Path
from typing import Annotated

import typer

from sureprox.cli.problem_commands import advise, evaluate, solve
from sureprox.cli.promise import promise
from sureprox.cli.sweep_commands import search, sweep
from sureprox.cli.train_command import train

app = typer.Typer(
    name="sureprox",
    help="Solve many convex problems at once, each with a proof that it is solved.",
    pretty_exceptions_enable=False,  # errors are reported by main
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from sureprox import __version__

        typer.echo(f"sureprox {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Solve many convex problems at once, each with a proof that it is solved."""


app.command()(solve)
app.command()(advise)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the figure.")] = Path("out/demo.png"),
    iterations: Annotated[int, typer.Option(help="Maximum number of iterations.")] = 300,
    batch: Annotated[int, typer.Option(help="Number of random problems.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of the problems and starting points.")] = 0,
) -> None:
    """Race the optimizers on the paper's LASSO problems.

    A table here, a figure in OUT.
    """
    import torch

    from sureprox.demo import demo as run_demo

    torch.set_num_threads(1)  # on busy cores, threads that wait for each other made this two to four times slower
    run_demo(out, max_iter=iterations, batch=batch, seed=seed)


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="Show all about this one: a name, or the path of a model.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """List the pretrained optimizers."""
    from sureprox.cli.models import show_all, show_one

    if name is None:
        show_all(as_json=json)
    else:
        show_one(name, as_json=json)


app.command()(train)
app.command()(sweep)
app.command()(search)
app.command()(evaluate)


@app.command()
def reproduce(
    what: Annotated[list[str], typer.Argument(metavar="FIGURE...", help="fig1 ... fig17, ablations or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Few problems, fewer iterations: minutes on a CPU.")] = False,
    full: Annotated[bool, typer.Option("--full", help="As in the paper, even without a GPU.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Figures and claims; out/reproduction/quick or full by default.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Records of the figures; OUT/records by default.")
    ] = None,
    instances: Annotated[int | None, typer.Option(min=1, help="Number of problems.")] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Iterations of each optimizer.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the problems and starting points.")] = 0,
    dictionary: Annotated[str, typer.Option(help="Of the image patches: ours, or the released code's.")] = "ours",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    weights: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Models to take before those of the package: DIR/KIND/NAME.")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(help="A model that joins the figures: a name, a path, or one below --weights; repeatable."),
    ] = None,
    records_only: Annotated[bool, typer.Option("--records-only", help="Draw nothing.")] = False,
    figures_only: Annotated[bool, typer.Option("--figures-only", help="Draw from records, compute nothing.")] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="local|ADDRESS", help="Curves on all cores, or on the Dask cluster of the scheduler at ADDRESS."
        ),
    ] = None,
) -> None:
    """Run the paper's experiments and judge its claims.

    Writes records, figures and a table of claims. Give the same command
    again to continue an interrupted run.
    """
    from sureprox.base.errors import InputError
    from sureprox.cli import reproduce as command
    from sureprox.cli.choices import chosen_device, chosen_weights
    from sureprox.evaluation.contestants import learned

    figures = command.chosen_figures(what)
    if records_only and figures_only:
        raise InputError("--records-only and --figures-only are given; choose one")
    if dask is not None and figures_only:
        raise InputError("--dask and --figures-only are given; nothing is computed, leave --dask out")
    if also and figures_only:
        raise InputError("--also and --figures-only are given; the figures show what is on record, leave --also out")
    where = chosen_device(device)
    directory = chosen_weights(weights)
    for name in also or []:
        learned(name, where, directory)  # refuses what is not there
    whole = full or (figures_only and not quick)
    request = command.chosen_request(quick, whole, instances, iterations, seed, where, dictionary)
    folder = out or Path("out/reproduction") / request.mode
    command.run(
        figures,
        request,
        where,
        folder,
        records or folder / "records",
        weights=directory,
        also=also or [],
        compute=not figures_only,
        draw=not records_only,
        cluster=dask,
    )


@app.command()
def audit(
    model: Annotated[
        list[str] | None, typer.Option(help="Pretrained name or path of a model; repeatable. All known by default.")
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="ind, s=NUMBER (start moved), t=NUMBER (objective moved) or s=..,t=..; repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the report.")] = Path("out/audit"),
    instances: Annotated[int, typer.Option(help="Random problems for each model.")] = 4,
    iterations: Annotated[int, typer.Option(help="Iterations of each run.")] = 100,
    trials: Annotated[int, typer.Option(help="Random pairs of runs of each kind for the statements.")] = 12,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Check the theory, and what it says about trained optimizers.

    Checks every statement on random runs, and on runs of trained
    optimizers.
    """
    import torch

    from sureprox.cli.audit import run as run_audit

    torch.set_num_threads(1)
    run_audit(model or [], scenario or [], out, instances, iterations, trials, seed)


bench = typer.Typer(help="Measure optimizers against each other.", no_args_is_help=True)
app.add_typer(bench, name="bench")
bench.command()(promise)


@bench.command()
def battery(
    quick: Annotated[bool, typer.Option("--quick", help="Few instances of each kind: minutes on a CPU.")] = False,
    kinds: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Kinds of problem; also all-lasso, all-logistic, forms.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Instances of each kind; 64 by default.")] = None,
    models: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="go-math-l2o, l2o-pa, sure, sure-light, default, or KIND/NAME."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the problems and starting points.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    weights: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Models to take before those of the package: DIR/KIND/NAME.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Records, table and figure.")] = Path("out/battery"),
    figures_only: Annotated[bool, typer.Option("--figures-only", help="From records, compute nothing.")] = False,
) -> None:
    """Count iterations, products and seconds on many kinds of problem.

    To relative gaps of 1e-3, 1e-6 and 1e-9, for each optimizer.
    """
    from sureprox.cli.bench import run_battery
    from sureprox.cli.choices import chosen_weights

    run_battery(
        [name for name in (kinds or "").split(",") if name],
        [name for name in (models or "").split(",") if name],
        out,
        quick=quick,
        batch=batch,
        seed=seed,
        device=device,
        weights=chosen_weights(weights),
        figures_only=figures_only,
    )


@bench.command()
def speed(
    batches: Annotated[str, typer.Option(metavar="SIZE,...", help="Problems in a batch.")] = "1,8,32,128,1024",
    names: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Optimizers, such as ista,sure,certified sure; all by default."),
    ] = None,
    shared: Annotated[bool, typer.Option("--shared", help="One 64 x 128 matrix for the whole batch.")] = False,
    steps: Annotated[int, typer.Option(min=1, help="Iterations of a round.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the best one counts.")] = 5,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Record, table and figure.")] = Path("out/speed"),
    figures_only: Annotated[bool, typer.Option("--figures-only", help="From the record, compute nothing.")] = False,
) -> None:
    """Time an iteration of each optimizer, for several batch sizes.

    With ISTA and the speed of the memory for comparison.
    """
    from sureprox.cli.speed import run_speed

    run_speed(batches, names, out, shared=shared, steps=steps, rounds=rounds, device=device, redraw=figures_only)


@app.command()
def report(
    records: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Directory to search for records; repeatable. By default records, out and runs."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="Where to write the page.")] = Path("report.html"),
) -> None:
    """Write one HTML page from all records.

    Convergence curves, claims, battery, theory audit and training, in one
    file that needs no network.
    """
    from sureprox.cli.report import run as run_report

    run_report(records or [], out)
