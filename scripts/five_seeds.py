"""Everything that the paper's figures show, trained from five seeds, and the figures and claims over them.

    python scripts/five_seeds.py --out runs/seeds                     # all: about three hours on one GPU
    python scripts/five_seeds.py --out runs/seeds l2o-pa/lasso        # some
    python scripts/five_seeds.py --out runs/seeds --reproduce         # then the figures of each seed, and all together
    python scripts/five_seeds.py --out runs/seeds --install           # then put seed 0 into the package

Nothing is picked: of every run the weights that are best in validation, on the distribution it is trained on, are kept,
and every seed counts. The same command goes on where it was interrupted; a run that fails stops no other one, is named
at the end, and is tried again by the next call.

Runs are in OUT/seed-K/KIND/NAME, so that `sureprox reproduce --weights OUT/seed-K` finds them.
"""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

import pretrain
from sureprox.base.names import PRETRAINED
from sureprox.cli.reproduce import chosen_figures, run
from sureprox.evaluation import FIGURES, FULL, Request
from sureprox.training import Ending, Recipe, preset, sweep
from sureprox.training.jobs import Outcome

SEEDS = (0, 1, 2, 3, 4)
PICKED = "go-math-l2o/lasso"  # as shipped before: kept as go-math-l2o/lasso-picked when seed 0 takes its place
LASSO_FIGURES, LOGISTIC_FIGURES = ("fig1", "fig2", "fig3", "fig4"), ("fig13", "fig14", "fig15", "fig16", "fig17")


def released() -> dict[str, Recipe]:
    """The earlier methods with the settings of the authors' released code."""
    kinds = ("l2o-pa", "l2o-dm", "rnnprop", "ada-lista")
    names = [f"{family}-released" for family in ("lasso", "logistic")]
    return {f"{kind}/{name}": preset(name, kind) for name in names for kind in kinds}


def causes() -> dict[str, Recipe]:
    """What differs from the paper's recipe in one thing: detached features, longer segments, clipping, other starts."""
    plain = preset("lasso-7", "l2o-pa")
    return {
        "l2o-pa/lasso-detached": preset("lasso-7", "l2o-pa", detached=True),
        "l2o-pa/lasso-bp-50": preset("lasso-15", "l2o-pa"),
        "l2o-pa/lasso-bp-100": preset("lasso-23", "l2o-pa"),
        "l2o-pa/lasso-clipped": replace(plain, training=replace(plain.training, clip=1.0)),
        "go-math-l2o/lasso-any-start": preset("lasso-any-start"),
    }


def recipes() -> dict[str, Recipe]:
    """Every model, the default one first."""
    paper = {name: recipe for name, recipe in pretrain.models().items() if not name.startswith("sure/")}
    return paper | released() | causes()


def seeded(chosen: dict[str, Recipe], seeds: Sequence[int]) -> dict[str, Recipe]:
    """seed-K/NAME: the recipe with that seed, of its first weights and of its problems."""
    return {
        f"seed-{seed}/{name}": replace(recipe, training=replace(recipe.training, seed=seed))
        for seed in seeds
        for name, recipe in chosen.items()
    }


def tell(outcome: Outcome) -> None:
    note = f": {outcome.error}" if outcome.error else ""
    print(f"{outcome.name} {outcome.ending}, validation {outcome.best_validation}{note}", flush=True)


def reproduce(out: Path, seeds: Sequence[int], request: Request) -> None:
    """The figures of each seed, with what is beside the paper's recipe, and then over all seeds."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    extra = [*released(), *causes()]
    parts = {
        LASSO_FIGURES: [name for name in extra if "/lasso" in name],
        LOGISTIC_FIGURES: [name for name in extra if "/logistic" in name],
        tuple(name for name in FIGURES if name not in (*LASSO_FIGURES, *LOGISTIC_FIGURES)): [],
    }
    for seed in seeds:
        weights, records = out / f"seed-{seed}", out / "records" / f"seed-{seed}"
        for figures, also in ((figures, also) for figures, also in parts.items() if figures):
            folder = out / "figures" / f"seed-{seed}"
            run(figures, request, device, folder, records, weights=weights, also=also, compute=True, draw=True)
    figures = chosen_figures(["all"])
    run(figures, request, device, out / "figures", out / "records", weights=None, compute=False, draw=True)


def install(out: Path, names: Sequence[str]) -> None:
    """Seed 0 of each model into the package; the picked weights that were there keep a name that says so."""
    for name in names:
        source = out / "seed-0" / name
        if not (source / "model.json").exists():
            print(f"{name}: seed 0 is not trained, nothing installed")
            continue
        if name == PICKED and not (PRETRAINED / f"{PICKED}-picked.json").exists():
            for suffix in (".safetensors", ".json"):
                shutil.copy(PRETRAINED / f"{PICKED}{suffix}", PRETRAINED / f"{PICKED}-picked{suffix}")
        pretrain.install(source, name)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="which models; all by default")
    parser.add_argument("--out", type=Path, required=True, help="directory of the runs")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="with commas between them")
    parser.add_argument("--reproduce", action="store_true", help="then run the figures")
    parser.add_argument("--dictionary", default="ours", help="of the image patches: ours or released")
    parser.add_argument("--install", action="store_true", help="then copy seed 0 into the package")
    options = parser.parse_args(arguments)
    known = recipes()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no model {unknown[0]}; known are {', '.join(known)}")
    chosen = {name: known[name] for name in options.names or known}
    seeds = [int(seed) for seed in options.seeds.split(",")]
    done = sweep(seeded(chosen, seeds), options.out, progress=tell)
    for ending in (Ending.FAILED, Ending.INTERRUPTED, Ending.WAITING):
        if names := [outcome.name for outcome in done.ended(ending)]:
            print(f"{len(names)} {ending}: {', '.join(names)}")
    if done.ended(Ending.INTERRUPTED) or done.ended(Ending.WAITING):
        raise SystemExit("interrupted; the same command goes on")
    if options.reproduce:
        reproduce(options.out, seeds, replace(FULL, dictionary=options.dictionary))
    if options.install:
        install(options.out, list(chosen))


if __name__ == "__main__":
    main()
