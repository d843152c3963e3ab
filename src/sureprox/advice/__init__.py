"""Which solver to use for given problems, measured on this machine."""

from sureprox.advice.advise import advise
from sureprox.advice.familiarity import Familiarity, Statistic
from sureprox.advice.result import Advice, Timing

__all__ = ["Advice", "Familiarity", "Statistic", "Timing", "advise"]
