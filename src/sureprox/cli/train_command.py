"""The command `train`: on random problems, or on those of a file."""

from pathlib import Path
from typing import Annotated

import typer

from sureprox.cli.form_options import Lam, LamRatio, LossOption


def train(
    preset: Annotated[str | None, typer.Option(help="Training setting; lasso-7 by default.")] = None,
    list_presets: Annotated[bool, typer.Option("--list-presets", help="Show the presets and exit.")] = False,
    optimizer: Annotated[
        str | None, typer.Option(help="Kind of optimizer; go-math-l2o by default, sure for the presets of sure.")
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument of the optimizer, such as gradient_map=std; repeatable."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Instead of --preset, --optimizer and --argument.")
    ] = None,
    problems: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Tune Sure for the problems of FILE; twice for A.npy and b.npy."),
    ] = None,
    lam: Lam = None,
    lam_ratio: LamRatio = None,
    loss: LossOption = None,
    base: Annotated[
        str, typer.Option(metavar="NAME", help="With --problems: weights of Sure to start from, by name or path.")
    ] = "sure",
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Value of the training config, such as batch=64; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the initial weights and of the problems.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of the run; below runs by default.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    backend: Annotated[str, typer.Option(help="auto, plain, compiled or graph.")] = "auto",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write DIR/tensorboard too.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw DIR/curves.png from the log at the end.")] = False,
) -> None:
    """Train an optimizer on random problems, or tune Sure for your own.

    With --problems, a quarter of the problems is kept aside to judge the
    new weights, and nothing is written if they are not better there.
    Give the same command again to continue an interrupted run.
    """
    from sureprox.base.errors import ConfigError
    from sureprox.cli import train as command

    if list_presets:
        command.list_presets(optimizer)
        return
    if problems:
        given: dict[str, object] = {"preset": preset, "optimizer": optimizer, "argument": argument, "config": config}
        given |= {"tensorboard": tensorboard, "plot": plot}
        if unused := [name for name, value in given.items() if value]:
            raise ConfigError(f"--{unused[0]} does not go with --problems; leave one of them out")
        from sureprox.cli import fine_tune

        directory = out or Path("runs") / "tuned" / problems[0].stem
        asked = {"lam": lam, "lam_ratio": lam_ratio, "loss": loss}
        fine_tune.run(problems, asked, base, command.pairs("--set", change or []), seed or 0, directory, device)
        return
    if lam is not None or lam_ratio is not None or loss is not None or base != "sure":
        raise ConfigError("--lam, --lam-ratio, --loss and --base go with --problems FILE")
    recipe, name = command.choose(preset, optimizer, argument or [], config, change or [], seed)
    directory = out or Path("runs") / recipe.optimizer / name
    command.run(recipe, directory, device=device, backend=backend, tensorboard=tensorboard, plot=plot)
