"""One function per command. What a command needs is imported inside it, so that --help stays quick."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="sureprox",
    help="Learned proximal optimizers you can be sure of.",
    add_completion=False,
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
    """Learned proximal optimizers you can be sure of."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("out/demo.png"),
    iterations: Annotated[int, typer.Option(help="Most iterations of each optimizer.")] = 300,
    batch: Annotated[int, typer.Option(help="Number of random problems.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of the problems and starting points.")] = 0,
) -> None:
    """Race the optimizers on the LASSO problems of the paper: a table here, a figure in OUT."""
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


@app.command()
def train(
    preset: Annotated[str | None, typer.Option(help="Training setting; lasso-7 by default.")] = None,
    list_presets: Annotated[bool, typer.Option("--list-presets", help="Show the presets and exit.")] = False,
    optimizer: Annotated[str | None, typer.Option(help="Kind of optimizer; go-math-l2o by default.")] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument of the optimizer, such as gradient_map=std; repeatable."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Instead of --preset, --optimizer and --argument.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Value of the training config, such as batch=64; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the initial weights and of the problems.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of the run; runs/OPTIMIZER/PRESET by default.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    backend: Annotated[str, typer.Option(help="auto, plain, compiled or graph.")] = "auto",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write DIR/tensorboard too.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw DIR/curves.png from the log at the end.")] = False,
) -> None:
    """Train an optimizer on random problems. An interrupted run goes on when the same command is given again."""
    from sureprox.cli import train as command

    if list_presets:
        command.list_presets(optimizer)
        return
    recipe, name = command.choose(preset, optimizer, argument or [], config, change or [], seed)
    directory = out or Path("runs") / recipe.optimizer / name
    command.run(recipe, directory, device=device, backend=backend, tensorboard=tensorboard, plot=plot)


@app.command()
def audit(
    model: Annotated[
        list[str] | None, typer.Option(help="Pretrained name or path of a model; repeatable. All known by default.")
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="ind, s=NUMBER (start moved), t=NUMBER (objective moved) or s=..,t=..; repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")] = Path("out/audit"),
    instances: Annotated[int, typer.Option(help="Random problems for each model.")] = 4,
    iterations: Annotated[int, typer.Option(help="Iterations of each run.")] = 100,
    trials: Annotated[int, typer.Option(help="Random pairs of runs of each kind for the statements.")] = 12,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Check every statement of the theory, and what it says about trained optimizers."""
    import torch

    from sureprox.cli.audit import run as run_audit

    torch.set_num_threads(1)
    run_audit(model or [], scenario or [], out, instances, iterations, trials, seed)
