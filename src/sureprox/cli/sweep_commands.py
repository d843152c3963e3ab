"""The commands that train many times: `sweep` and `search`."""

from pathlib import Path
from typing import Annotated

import typer

Optimizer = Annotated[
    str | None, typer.Option(help="Kind of optimizer; go-math-l2o by default, sure for the presets of sure.")
]
Argument = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Argument of the optimizer, such as gradient_map=std; repeatable."),
]
Change = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Value of the training config, such as batch=64; repeatable."),
]
Dask = Annotated[
    str | None,
    typer.Option(metavar="local|ADDRESS", help="On all cores, or on the Dask cluster of the scheduler at ADDRESS."),
]
Device = Annotated[str, typer.Option(help="auto (a GPU where the worker has one), cpu or cuda.")]
Backend = Annotated[str, typer.Option(help="auto, plain, compiled or graph.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout, and nothing else.")]


def sweep(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE...",
            help="Presets, patterns of them such as 'lasso-*', TOML files, or all-settings: the paper's 24.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Each recipe is trained in DIR/NAME.")],
    optimizer: Optimizer = None,
    argument: Argument = None,
    change: Change = None,
    seeds: Annotated[str | None, typer.Option(metavar="0,1,...", help="Each recipe with each of these seeds.")] = None,
    dask: Dask = None,
    device: Device = "auto",
    backend: Backend = "auto",
    json: Json = False,
) -> None:
    """Train several recipes, one by one or on a Dask cluster.

    Give the same command again to continue an interrupted sweep; trained
    recipes are kept.

    Exit codes:
    0 every recipe is trained
    1 some failed; the others are trained
    2 the input or an option cannot be used; nothing is written
    130 interrupted
    """
    from sureprox.cli import sweep as command

    recipes = command.chosen(what, optimizer, argument or [], change or [], seeds)
    command.run(recipes, out, device=device, backend=backend, cluster=dask, as_json=json)


def search(
    what: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A preset, or a TOML file whose table 'search' says what to vary.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Trials, study, best.toml and summary.json.")],
    trials: Annotated[int, typer.Option(min=1, help="Total number of trials, including earlier calls.")] = 20,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Trials at a time on the cluster; one for each of its threads by default.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="Stop trials that are worse than the median, or not.")
    ] = True,
    optimizer: Optimizer = None,
    argument: Argument = None,
    change: Change = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the proposals; set that of the runs by --set seed=N.")] = 0,
    dask: Dask = None,
    device: Device = "auto",
    backend: Backend = "auto",
    json: Json = False,
) -> None:
    """Search for training settings with Optuna.

    The smallest validation loss wins. DIR/best.toml is then a recipe for
    `sureprox train --config`. Give the same command again to continue an
    interrupted search.

    Exit codes:
    0 all trials ended, and one or more of them were completed
    1 none of them was completed
    2 the input or an option cannot be used; nothing is written
    130 interrupted
    """
    from sureprox.cli import search as command

    recipe, space = command.chosen(what, optimizer, argument or [], change or [])
    command.run(
        recipe,
        space,
        out,
        trials=trials,
        parallel=parallel,
        prune=prune,
        seed=seed,
        cluster=dask,
        device=device,
        backend=backend,
        as_json=json,
    )
