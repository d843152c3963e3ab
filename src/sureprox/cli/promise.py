"""`sureprox bench promise`: what can be promised of a model on a kind of problem, and do fresh problems keep it?"""

import json as json_format
from typing import Annotated

import typer


def promise(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A pretrained name, such as sure/lasso, or a path.")],
    kind: Annotated[str, typer.Option(metavar="NAME", help="Kind of problem, as in the battery.")],
    pilot: Annotated[int, typer.Option(min=1, help="Problems that choose the number of gradients.")] = 100,
    instances: Annotated[int, typer.Option(min=1, help="Problems held out.")] = 1000,
    fresh: Annotated[int, typer.Option(min=0, help="Further problems, to see whether it holds.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the problems.")] = 0,
    card: Annotated[bool, typer.Option("--card", help="Write it on the card of the model.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Promise how many problems of a kind are solved within K gradients.

    With confidence 1 - 1e-5, by the bound of Clopper and Pearson.
    """
    from dataclasses import asdict

    from sureprox.evaluation.battery import chosen
    from sureprox.evaluation.promise import on_card, promised

    (found,) = chosen([kind])[:1]
    made = promised(model, found, pilot, instances, fresh, seed)
    if card:
        on_card(model, made)
    print(json_format.dumps(asdict(made), indent=2) if json else f"{model}: {made}")
