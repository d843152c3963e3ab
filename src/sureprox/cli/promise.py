"""`sureprox bench promise`: what can be promised of a model on a kind of problem, and do fresh problems keep it?"""

import json as json_format
from typing import Annotated

import typer


def promise(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A pretrained name, such as sure/lasso.")],
    kind: Annotated[str, typer.Option(metavar="NAME", help="Kind of problem, as in the battery.")],
    pilot: Annotated[int, typer.Option(min=1, help="Problems that choose the number of gradients.")] = 200,
    instances: Annotated[int, typer.Option(min=1, help="Problems held out.")] = 2000,
    fresh: Annotated[int, typer.Option(min=0, help="Further problems, to see whether it holds.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the problems.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Promise how many problems of a kind are solved within K gradients.

    With confidence 1 - 1e-5, by the bound of Clopper and Pearson.
    """
    from dataclasses import asdict

    from sureprox.evaluation.battery import chosen
    from sureprox.evaluation.promise import kept, promised

    (found,) = chosen([kind])[:1]
    made = promised(model, found, pilot, instances, seed)
    count = kept(model, found, made, fresh) if fresh else None
    if json:
        print(json_format.dumps(asdict(made) | {"fresh": fresh, "fresh_reached": count}, indent=2))
        return
    print(f"{model}: {made}")
    if count is not None:
        holds = "holds" if count >= made.share * fresh else "does not hold"
        print(f"fresh problems: {count:,} of {fresh:,} ({100 * count / fresh:.2f} %): it {holds}")
