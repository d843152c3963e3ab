"""The paper's experiments: scenarios, curves, records of them, and which curves make which figure."""

from sureprox.evaluation.figures import FIGURES, GROUPS, FigureSpec
from sureprox.evaluation.record_files import read_figure, read_figures
from sureprox.evaluation.records import CurveRecord, FigureRecord, RecordError
from sureprox.evaluation.reproduction import FULL, QUICK, Reproduction, Request
from sureprox.evaluation.scenarios import Move, Scenario

__all__ = [
    "FIGURES",
    "FULL",
    "GROUPS",
    "QUICK",
    "CurveRecord",
    "FigureRecord",
    "FigureSpec",
    "Move",
    "RecordError",
    "Reproduction",
    "Request",
    "Scenario",
    "read_figure",
    "read_figures",
]
