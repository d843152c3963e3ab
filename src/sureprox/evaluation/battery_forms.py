"""The kinds of problem of the battery beyond LASSO and L1-logistic: the group "forms".

On these the default optimizer of `solve` runs against restarted FISTA. None of them was in the training of Sure.
"""

from dataclasses import dataclass

import torch

from sureprox.evaluation.battery_kinds import Draw, Kind
from sureprox.sources import (
    BoxFamily,
    DeconvolutionFamily,
    ElasticNetFamily,
    Family,
    GroupFamily,
    HuberFamily,
    NonNegativeFamily,
    PoissonFamily,
    SeparableMixture,
    SparseFamily,
)

FORMS = "forms"


@dataclass(frozen=True)
class Drawn:
    """Problems and starting points of a family."""

    family: Family

    def __call__(self, count: int, generator: torch.Generator) -> Draw:
        problem = self.family.sample(count, generator, torch.float64)
        start = self.family.start(count, generator, torch.float64)
        r = problem.r
        if r.restricts:  # where F is infinite there is nothing to compare
            start = r.prox(start, torch.full_like(start[:, :1], 1e-12))
        return Draw(problem, start, repr(self.family))


SAMPLED: dict[str, Family] = {
    "elastic-net": ElasticNetFamily(),
    "elastic-net-little-l2": ElasticNetFamily(l2=1e-3),
    "nonnegative": NonNegativeFamily(),
    "nonnegative-lasso": NonNegativeFamily(m=100, n=200, lam=0.1),
    "box": BoxFamily(),
    "box-tight": BoxFamily(reach=0.1),
    "huber": HuberFamily(),
    "huber-small-delta": HuberFamily(delta=0.05, lam=0.1),
    "poisson": PoissonFamily(),
    "poisson-wide": PoissonFamily(m=100, n=150),
    "group": GroupFamily(),
    "group-large": GroupFamily(size=20, nonzeros=40),
    "sparse": SparseFamily(),
    "sparse-tall": SparseFamily(m=1000, n=300, density=0.01, lam=0.3),
    "deconvolution": DeconvolutionFamily(),
    "deconvolution-wide": DeconvolutionFamily(width=3.0, lam=0.1),
    "separable-mixture": SeparableMixture(m=120, n=150),
}
FORM_KINDS = {name: Kind(name, FORMS, False, Drawn(family), largest=256) for name, family in SAMPLED.items()}
