"""Every statement of the paper's theory, evaluated: on random runs, and on trained optimizers.

    from sureprox.audit import audit, write
    write(audit(), Path("out/audit"))

One function for each statement (`lemma1`, ..., `theorem9`, `corollary10`) takes a `Pair` of runs, made with `aligned`,
and returns a `Check`: left side, right side as printed, corrected and assumption-free, slack, hypotheses.
"""

from sureprox.audit.composite import corollary4, corollary5, corollary6, lemma2, lemma3, theorem4, theorem5
from sureprox.audit.horizon import (
    comparison,
    corollary7,
    corollary8,
    corollary9,
    corollary10,
    lemma5,
    lemma6,
    theorem6,
    theorem7,
    theorem8,
    theorem9,
)
from sureprox.audit.jacobian import average_jacobian, average_slope, sampled_maximum, virtual_jacobian
from sureprox.audit.math_l2o import Affine, MathL2O
from sureprox.audit.models import ModelAudit, Scenario, audit_model
from sureprox.audit.report import AuditReport, audit, write
from sureprox.audit.result import Bound, Check
from sureprox.audit.smooth import corollary1, corollary2, corollary3, lemma1, theorem1, theorem2
from sureprox.audit.statements import STATEMENTS, Statement, Verdict
from sureprox.audit.structure import lasso_smoothness, lemma4, prox, size_of_b, theorem3
from sureprox.audit.trajectory import Constants, Pair, Trajectory, aligned, pair, secant_constants, trace

__all__ = [
    "STATEMENTS",
    "Affine",
    "AuditReport",
    "Bound",
    "Check",
    "Constants",
    "MathL2O",
    "ModelAudit",
    "Pair",
    "Scenario",
    "Statement",
    "Trajectory",
    "Verdict",
    "aligned",
    "audit",
    "audit_model",
    "average_jacobian",
    "average_slope",
    "comparison",
    "corollary1",
    "corollary2",
    "corollary3",
    "corollary4",
    "corollary5",
    "corollary6",
    "corollary7",
    "corollary8",
    "corollary9",
    "corollary10",
    "lasso_smoothness",
    "lemma1",
    "lemma2",
    "lemma3",
    "lemma4",
    "lemma5",
    "lemma6",
    "pair",
    "prox",
    "sampled_maximum",
    "secant_constants",
    "size_of_b",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem4",
    "theorem5",
    "theorem6",
    "theorem7",
    "theorem8",
    "theorem9",
    "trace",
    "virtual_jacobian",
    "write",
]
