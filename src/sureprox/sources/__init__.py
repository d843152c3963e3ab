"""Where problems come from: families of random problems, mixtures, real data, and problem files."""

from sureprox.sources.families import Family, LassoFamily, LogisticFamily
from sureprox.sources.mixtures import LassoMixture, LogisticMixture
from sureprox.sources.real import RealData, ionosphere, patches, spambase

__all__ = [
    "Family",
    "LassoFamily",
    "LassoMixture",
    "LogisticFamily",
    "LogisticMixture",
    "RealData",
    "ionosphere",
    "patches",
    "spambase",
]
