"""Which estimators of other packages solve a problem as it is; and why some do not."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from sureprox.advice.external import Case, External
from sureprox.problems import Problem
from sureprox.problems.question import Question, question

OTHER = "solves other problems than this one"
NAMED = "scikit-learn"
Found = tuple[list[External], dict[str, str]]


def externals(problem: Problem, tol: float) -> Found:
    """Those that are installed and solve this kind of problem; the others with the reason why not."""
    asked = question(problem)
    if asked is None:
        return [], {NAMED: OTHER}
    reason = _unsuitable(asked)
    if reason is not None:
        return [], {NAMED: reason}
    found: list[External] = []
    missing = dict(_different(asked))
    for package, add in (("scikit-learn", _scikit_learn), ("scipy", _scipy), ("celer", _celer), ("skglm", _skglm)):
        try:
            found += add(asked, tol)
        except ImportError:
            if package != "skglm":  # it needs a compiler of its own, and is named where it is there
                missing[package] = f"not installed; pip install {package}"
    if not found and not missing:
        missing[NAMED] = f"{OTHER}; no peer is known"
    return found, missing


def _unsuitable(asked: Question) -> str | None:
    """Why nobody is asked, although the parts are known."""
    for name in ("l1", "l2"):
        if not asked.has(name) and not asked.lacks(name):
            return f"{name} is 0 in some of the problems, and not in others"
    if asked.groups is not None:
        return None if bool((asked.sizes["lam"] > 0).all()) else "lam is 0"
    plain = asked.lacks("l1") and asked.lacks("l2") and asked.bounds == "none"
    if plain and asked.loss in ("squares", "logistic"):
        return f"{OTHER}: lam is 0, which coordinate descent is not made for"
    target = asked.target
    if asked.loss in ("logistic", "squared hinge") and bool((target.amax(1) == target.amin(1)).any()):
        return "some problem has labels of one class only"
    if asked.loss == "softmax":
        classes = [set(row) for row in target.tolist()]
        if len(set(map(len, classes))) > 1 or len(classes[0]) < 3:
            return "some problem has fewer than three classes, or not all of them"
    return None


def _different(asked: Question) -> dict[str, str]:
    """Estimators whose names suggest this problem, and which solve another one."""
    if asked.loss == "huber":
        return {"scikit-learn HuberRegressor": "estimates the scale of the residuals too, which is another problem"}
    if asked.loss == "poisson" and not asked.lacks("l1"):
        return {"scikit-learn PoissonRegressor": "has no l1"}
    if asked.loss == "quantile":
        return {"scikit-learn QuantileRegressor": "takes the loss without smoothing, which is another problem"}
    return {}


def _shown(call: str, *arguments: str, fit: str = "A, b") -> str:
    return f"{call}({', '.join(arguments)}).fit({fit})"


def _scikit_learn(asked: Question, tol: float) -> list[External]:
    if asked.groups is not None:
        return []
    adders: dict[str, Callable[[Any, Question, float], list[External]]] = {
        "squares": _sklearn_squares,
        "logistic": _sklearn_logistic,
        "softmax": _sklearn_softmax,
        "squared hinge": _sklearn_hinge,
        "poisson": _sklearn_poisson,
    }
    if asked.loss not in adders or (asked.loss != "squares" and asked.bounds != "none"):
        return []
    return adders[asked.loss](import_module("sklearn.linear_model"), asked, tol)


def _sklearn_squares(linear: Any, asked: Question, tol: float) -> list[External]:
    if asked.bounds == "box":
        return []
    inside: dict[str, Any] = {"positive": True} if asked.bounds == "nonnegative" else {}
    tail = ["fit_intercept=False", *(f"{key}={value}" for key, value in inside.items()), "tol={tol}"]
    if asked.has("l1") and asked.lacks("l2"):

        def lasso(case: Case, **extra: Any) -> Any:
            options = {"fit_intercept": False, "tol": case.tol, "max_iter": case.most}
            return linear.Lasso(alpha=case.l1 / case.m, **options, **inside, **extra)

        text = "sklearn.linear_model.Lasso"
        found = [External("scikit-learn Lasso", lasso, _shown(text, "alpha=lam / m", *tail), tol)]
        if asked.one_dense and len(asked.target) > 1 and not inside:
            shown = _shown(text, "alpha=lam / m", *tail, "precompute=A.T @ A")
            found.append(External("scikit-learn Lasso, A'A shared", lasso, shown, tol, gram=True))
        return found
    if asked.has("l1"):

        def elastic_net(case: Case) -> Any:
            options = {"fit_intercept": False, "tol": case.tol, "max_iter": case.most}
            return linear.ElasticNet(alpha=case.both / case.m, l1_ratio=case.share, **options, **inside)

        shown = _shown("sklearn.linear_model.ElasticNet", "alpha=(l1 + l2) / m", "l1_ratio=l1 / (l1 + l2)", *tail)
        return [External("scikit-learn ElasticNet", elastic_net, shown, tol)]
    if asked.has("l2"):

        def ridge(case: Case) -> Any:
            return linear.Ridge(alpha=case.l2, fit_intercept=False, tol=case.tol, **inside)

        return [External("scikit-learn Ridge", ridge, _shown("sklearn.linear_model.Ridge", "alpha=l2", *tail), tol)]
    return []


def _logistic_regression(linear: Any, asked: Question, tol: float, solvers: list[str], per_row: bool) -> list[External]:
    """C sum_i loss_i + (1 - q)/2 |x|^2 + q |x|_1, q = l1_ratio: ours over l1 + l2; `per_row`: our loss is a mean."""
    new = tuple(int(part) for part in version("scikit-learn").split(".")[:2]) >= (1, 8)
    mixed = asked.has("l1") and asked.has("l2")
    name = "elasticnet" if mixed else "l1" if asked.has("l1") else "l2"

    def external(solver: str) -> External:
        def make(case: Case) -> Any:
            ratio: dict[str, Any] = {"l1_ratio": case.share} if new or mixed else {}
            ratio |= {} if new else {"penalty": name}
            C = 1 / (case.both * (case.m if per_row else 1))
            options = {"fit_intercept": False, "tol": case.tol, "max_iter": case.most}
            return linear.LogisticRegression(C=C, solver=solver, **options, **ratio)

        weight = "(l1 + l2)" if mixed else "lam" if asked.has("l1") else "l2"
        shown = {"elasticnet": "l1_ratio=l1 / (l1 + l2)", "l1": "l1_ratio=1", "l2": "l1_ratio=0"}[name]
        if not new:
            shown = f"penalty={name!r}" + (f", {shown}" if mixed else "")
        C = f"C=1 / ({weight} * m)" if per_row else f"C=1 / {weight}"
        tail = (C, shown, f"solver={solver!r}", "fit_intercept=False", "tol={tol}")
        return External(
            f"scikit-learn {solver}", make, _shown("sklearn.linear_model.LogisticRegression", *tail, fit="A, y"), tol
        )

    return [external(solver) for solver in solvers]


def _sklearn_logistic(linear: Any, asked: Question, tol: float) -> list[External]:
    solvers = ["lbfgs", "newton-cholesky"]
    if asked.has("l1"):
        solvers = ["saga"] if asked.has("l2") else ["liblinear", "saga"]
    return _logistic_regression(linear, asked, tol, solvers, per_row=True)


def _sklearn_softmax(linear: Any, asked: Question, tol: float) -> list[External]:
    if asked.lacks("l1") and asked.lacks("l2"):
        return []
    return _logistic_regression(linear, asked, tol, ["saga" if asked.has("l1") else "lbfgs"], per_row=False)


def _sklearn_hinge(linear: Any, asked: Question, tol: float) -> list[External]:
    if asked.has("l1") == asked.has("l2"):
        return []
    svm, penalty = import_module("sklearn.svm"), "l1" if asked.has("l1") else "l2"

    def make(case: Case) -> Any:
        options = {"fit_intercept": False, "dual": False, "tol": case.tol, "max_iter": case.most}
        return svm.LinearSVC(penalty=penalty, C=1 / case.both if penalty == "l1" else 1 / case.l2, **options)

    tail = (f"penalty={penalty!r}", f"C=1 / {penalty}", "dual=False", "fit_intercept=False", "tol={tol}")
    return [External("scikit-learn LinearSVC", make, _shown("sklearn.svm.LinearSVC", *tail, fit="A, y"), tol)]


def _sklearn_poisson(linear: Any, asked: Question, tol: float) -> list[External]:
    if not asked.lacks("l1"):
        return []

    def make(case: Case) -> Any:
        options = {"fit_intercept": False, "tol": case.tol, "max_iter": case.most}
        return linear.PoissonRegressor(alpha=case.l2 / case.m, solver="newton-cholesky", **options)

    tail = ("alpha=l2 / m", "solver='newton-cholesky'", "fit_intercept=False", "tol={tol}")
    shown = _shown("sklearn.linear_model.PoissonRegressor", *tail, fit="A, y")
    return [External("scikit-learn PoissonRegressor", make, shown, tol)]


class _Bounded:
    """Least squares within bounds, with the interface of an estimator."""

    def __init__(self, solved: Callable[[Any, Any], Any]) -> None:
        self.solved = solved

    def fit(self, A: Any, b: Any) -> "_Bounded":
        self.coef_ = self.solved(A, b)
        return self


def _scipy(asked: Question, tol: float) -> list[External]:
    least = asked.loss == "squares" and asked.groups is None and asked.lacks("l1") and asked.lacks("l2")
    if not least or asked.sparse or asked.bounds == "none":
        return []
    optimize = import_module("scipy.optimize")

    def nnls(case: Case) -> Any:
        return _Bounded(lambda A, b: optimize.nnls(A, b)[0])

    def boxed(case: Case) -> Any:
        bounds = (case.sizes["low"], case.sizes["high"])

        def solved(A: Any, b: Any) -> Any:
            options = {"method": "bvls", "tol": case.tol, "max_iter": case.most}
            return np.clip(optimize.lsq_linear(A, b, bounds, **options).x, *bounds)

        return _Bounded(solved)

    if asked.bounds == "nonnegative":
        return [External("scipy nnls", nnls, "scipy.optimize.nnls(A, b)", tol)]
    shown = "scipy.optimize.lsq_linear(A, b, (low, high), method='bvls', tol={tol})"
    return [External("scipy lsq_linear", boxed, shown, tol)]


def _celer(asked: Question, tol: float) -> list[External]:
    wanted = _celer_estimator(asked)
    if wanted is None:
        return []
    celer = import_module("celer")
    name, arguments, make = wanted

    def made(case: Case) -> Any:
        return getattr(celer, name)(fit_intercept=False, tol=case.tol, **make(case))

    shown = _shown(f"celer.{name}", *arguments, "fit_intercept=False", "tol={tol}", fit=_fit(asked))
    return [External("celer", made, shown, tol)]


Estimator = tuple[str, tuple[str, ...], Callable[[Case], dict[str, Any]]]


def _celer_estimator(asked: Question) -> Estimator | None:
    """Its class, its arguments as they are shown, and as they are."""
    if asked.bounds != "none":
        return None
    if asked.groups is not None and asked.loss == "squares":
        groups, weights = asked.groups, asked.group_weights
        return (
            "GroupLasso",
            ("groups", "alpha=lam / m", "weights=weights"),
            lambda case: {"groups": groups, "alpha": float(case.sizes["lam"]) / case.m, "weights": weights},
        )
    if not asked.has("l1"):
        return None
    if asked.loss == "squares" and asked.lacks("l2"):
        return "Lasso", ("alpha=lam / m",), lambda case: {"alpha": case.l1 / case.m}
    if asked.loss == "squares":
        return (
            "ElasticNet",
            ("alpha=(l1 + l2) / m", "l1_ratio=l1 / (l1 + l2)"),
            lambda case: {"alpha": case.both / case.m, "l1_ratio": case.share},
        )
    if asked.loss == "logistic" and asked.lacks("l2"):
        return "LogisticRegression", ("C=1 / (lam * m)",), lambda case: {"C": 1 / (case.l1 * case.m)}
    return None


def _skglm(asked: Question, tol: float) -> list[External]:
    """Lasso and elastic nets, with x >= 0 or without; L1-logistic problems."""
    if not asked.has("l1") or asked.bounds == "box" or asked.groups is not None:
        return []
    inside: dict[str, Any] = {"positive": True} if asked.bounds == "nonnegative" else {}
    if asked.loss == "squares":
        name = "ElasticNet" if asked.has("l2") else "Lasso"
    elif asked.loss == "logistic" and asked.lacks("l2") and not inside:
        name = "SparseLogisticRegression"
    else:
        return []
    skglm = import_module("skglm")

    def make(case: Case) -> Any:
        alpha = case.both / (1 if asked.loss == "logistic" else case.m)
        ratio = {"l1_ratio": case.share} if name == "ElasticNet" else {}
        return getattr(skglm, name)(alpha=alpha, fit_intercept=False, tol=case.tol, **ratio, **inside)

    weight = {"Lasso": "lam / m", "ElasticNet": "(l1 + l2) / m", "SparseLogisticRegression": "lam"}[name]
    tail = [f"alpha={weight}", *(["l1_ratio=l1 / (l1 + l2)"] if name == "ElasticNet" else [])]
    tail += [*(["positive=True"] if inside else []), "fit_intercept=False", "tol={tol}"]
    return [External("skglm", make, _shown(f"skglm.{name}", *tail, fit=_fit(asked)), tol)]


def _fit(asked: Question) -> str:
    return "A, y" if asked.loss == "logistic" else "A, b"
