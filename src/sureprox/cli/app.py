"""One function per command. What a command needs is imported inside it, so that --help stays quick."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="sureprox",
    help="Learned proximal optimizers you can be sure of.",
    add_completion=False,
    no_args_is_help=True,
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
