"""`sureprox models`: the cards of the pretrained optimizers, as a table, one by one, or as JSON."""

import json
from dataclasses import asdict
from typing import Any

from sureprox.base.errors import printable
from sureprox.cli.tables import new_table, table_console
from sureprox.optimizers import load, pretrained, read_card


def entry(name: str) -> dict[str, Any]:
    """The card of a model, with its name and the number of its weights in front."""
    card = read_card(name)
    weights = list(load(name).parameters())
    return {
        "name": name,
        "parameters": sum(weight.numel() for weight in weights),
        "bytes": sum(weight.numel() * weight.element_size() for weight in weights),
    } | asdict(card)


def row(name: str) -> tuple[str, ...]:
    """One line of the table."""
    found = entry(name)
    loss = found["metrics"].get("validation_loss")
    return (
        name,
        str(found["family"].get("name", "")),
        f"{found['parameters']:,}",
        trained_on(found["family"], found["training"], found["metrics"]),
        found["date"],
        "" if loss is None else f"{loss:.5g}",
        f"{found['bytes'] / 1024:.0f} KiB",
    )


def trained_on(family: dict[str, Any], training: dict[str, Any], metrics: dict[str, Any]) -> str:
    """Size of the problems and how many of them; what the card does not say is left out.

    `metrics["batches"]` is there where the weights were taken before the end of the run.
    """
    parts = []
    if {"m", "n"} <= set(family):
        parts.append(f"{family['m']} x {family['n']}")
    whole = training.get("pool", training.get("batches", 0) * training.get("epochs", 0))
    batches = metrics.get("batches", whole)
    if count := batches * training.get("batch", 0):
        parts.append(f"{count:,} problems")
    return ", ".join(parts)


def show_all(as_json: bool) -> None:
    names = pretrained()
    if as_json:
        print(json.dumps([entry(name) for name in names], indent=2))
        return
    if not names:
        print("no pretrained optimizers are installed; train one with: sureprox train")
        return
    table = new_table("name", "family", "parameters", "trained on", "date", "validation loss", "size")
    for name in names:
        table.add_row(*row(name))
    table_console().print(table)


def show_one(name: str, as_json: bool) -> None:
    found = entry(name)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for key, value in found.items():
        if key == "promises":
            show_promises(found["family"], value)
        elif isinstance(value, dict) and value:
            print(f"{key}:")
            for inner, content in value.items():
                print(printable(f"  {inner}: {content}"))
        elif value not in ("", {}, None):
            print(printable(f"{key}: {value}"))


def show_promises(family: dict[str, Any], promises: list[dict[str, Any]]) -> None:
    """Those of a card, and the kinds of the battery of which it says nothing."""
    from sureprox.evaluation.promise import from_card, unmeasured

    made = from_card(promises)
    for one in made:
        print(printable(f"promise: {one}"))
    if missing := unmeasured(family, made):
        print(f"no promise was measured on: {', '.join(missing)}")
