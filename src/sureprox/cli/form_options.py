"""The options that say what is minimised, for the commands that read problems."""

from pathlib import Path
from typing import Annotated

import typer

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="A table (.csv, .tsv, .parquet; .gz too); one .npz or .mat with A, b, lam (LASSO) or A, y, lam (logistic);"
        " two .npy: A b; or a sparse A.npz and b.npy.",
    ),
]
Lam = Annotated[str | None, typer.Option(metavar="NUMBER,...", help="Weight of |x|_1; overrides that of the file.")]
LamRatio = Annotated[
    str | None, typer.Option(metavar="NUMBER,...", help="lam as a fraction of the smallest one whose solution is zero.")
]
Kind = Annotated[
    str | None, typer.Option(help="lasso or logistic, where the file does not say; lasso by default for .npy and CSV.")
]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss", metavar="NAME", help="squares, logistic, huber, squared-hinge, poisson, quantile or softmax."
    ),
]
Delta = Annotated[float | None, typer.Option(help="huber: residuals beyond it count as outliers; 1 by default.")]
Level = Annotated[float | None, typer.Option(help="quantile: which one; 0.5, the median, by default.")]
Smoothing = Annotated[float | None, typer.Option(help="quantile: width of the smoothing; 0.1 by default.")]
Classes = Annotated[int | None, typer.Option(help="softmax: how many; by default the largest label plus one.")]
WeightL1 = Annotated[
    str | None, typer.Option("--l1", metavar="NUMBER,...", help="Weight of |x|_1, another name of --lam.")
]
WeightL2 = Annotated[str | None, typer.Option("--l2", metavar="NUMBER,...", help="Weight of |x|^2 / 2.")]
OnlyNonNegative = Annotated[bool, typer.Option("--nonnegative", help="Require x >= 0.")]
GroupsFile = Annotated[
    Path | None,
    typer.Option(
        "--groups",
        metavar="FILE",
        help="Text or .npy: the group of each coordinate, -1 for none; lam is then the weight of their norms.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="COLUMN,...", help="Target columns of a table, by name or number; the last one by default."),
]
Index = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of a table that names its rows; noticed by default. none: keep it."),
]
Intercept = Annotated[bool, typer.Option("--intercept", help="Table: fit an intercept, which is not penalised.")]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Table: divide the features by their standard deviations.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Dtype = Annotated[str, typer.Option(help="auto (as in the file), float32 or float64.")]
Engine = Annotated[str, typer.Option(help="auto, plain, kernels or compiled: what computes the steps.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout, and nothing else.")]
Tol = Annotated[float, typer.Option(help="Relative duality gap at which a problem counts as solved.")]
