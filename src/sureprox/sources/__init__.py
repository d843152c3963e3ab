"""Where problems come from: families of random problems, mixtures, real data, and problem files."""

from sureprox.sources.families import AnyStartLasso, Family, LassoFamily, LogisticFamily
from sureprox.sources.form_families import (
    BoxFamily,
    DeconvolutionFamily,
    ElasticNetFamily,
    GroupFamily,
    HuberFamily,
    NonNegativeFamily,
    PoissonFamily,
    SparseFamily,
)
from sureprox.sources.form_mixtures import GeneralMixture
from sureprox.sources.mixtures import LassoMixture, LogisticMixture, SeparableMixture
from sureprox.sources.real import RealData, ionosphere, patches, spambase

__all__ = [
    "AnyStartLasso",
    "BoxFamily",
    "DeconvolutionFamily",
    "ElasticNetFamily",
    "Family",
    "GeneralMixture",
    "GroupFamily",
    "HuberFamily",
    "LassoFamily",
    "LassoMixture",
    "LogisticFamily",
    "LogisticMixture",
    "NonNegativeFamily",
    "PoissonFamily",
    "RealData",
    "SeparableMixture",
    "SparseFamily",
    "ionosphere",
    "patches",
    "spambase",
]
