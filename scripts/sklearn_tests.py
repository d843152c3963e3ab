"""scikit-learn's own tests of the estimators that sureprox has too, run with the classes of sureprox put in.

    python scripts/sklearn_tests.py                 all files, and a record in benchmarks/records/sklearn_tests.json
    python scripts/sklearn_tests.py coordinate      only files with this in their name; the record keeps the others
    python scripts/sklearn_tests.py checks          only scikit-learn's estimator checks, which must all pass

The tests import their estimators from scikit-learn; before they do, those names are given to classes of sureprox that
also take, and ignore, parameters of scikit-learn's solvers (`IGNORED`); of these, `penalty` is obeyed. Every failure is
listed with a reason (`REASONS`); one without a reason makes the script fail. Tests that use none of the names pass
whatever sureprox does, and are counted with the others.
"""

import argparse
import dataclasses
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "records" / "sklearn_tests.json"
FILES = {
    "coordinate descent": "linear_model/tests/test_coordinate_descent.py",
    "sparse coordinate descent": "linear_model/tests/test_sparse_coordinate_descent.py",
    "dictionary learning": "decomposition/tests/test_dict_learning.py",
    "logistic regression": "linear_model/tests/test_logistic.py",
}
CHECKS = "estimator checks"  # of every class of sureprox.sklearn, by scikit-learn's `parametrize_with_checks`
OUTCOMES = ("passed", "failed", "skipped")
LINEAR = ("ElasticNet", "ElasticNetCV", "Lasso", "LassoCV", "LogisticRegression", "LogisticRegressionCV")
PATHS = ("enet_path", "lasso_path")
CODING = ("SparseCoder", "sparse_encode")
DESCENT = {"copy_X": True, "random_state": None, "selection": "cyclic"}
MANY = {"n_jobs": None, "verbose": 0}
LOGISTIC = {
    "dual": False,
    "intercept_scaling": 1,
    "n_jobs": None,
    "penalty": "deprecated",
    "random_state": None,
    "solver": "lbfgs",
    "verbose": 0,
}
IGNORED: dict[str, dict[str, Any]] = {
    "ElasticNet": DESCENT,
    "Lasso": DESCENT,
    "ElasticNetCV": DESCENT | MANY,
    "LassoCV": DESCENT | MANY,
    "LogisticRegression": LOGISTIC | {"l1_ratio": 0.0},
    "LogisticRegressionCV": LOGISTIC | {"l1_ratios": (0.0,), "refit": True, "use_legacy_attributes": False},
}
TIMEOUT = 600  # seconds for a test, which then fails

NO_CHECK = "there is no check_input: input is always checked, and never written on"
COUNTS = "compares iterations: ours are of a first-order method, and working sets need none"
SOLVED = "expects coordinate descent to fail; here the problem is solved, with a certificate"
SEVERAL = "expects several responses to be refused; here each is solved as a problem of its own"
GRAM = "a Gram matrix that is given is not used: the answer is the same without it"
WORDS = "the input is refused with other words, or by another type of exception"
WARNINGS = "expects a warning about a parameter that scikit-learn deprecates, or that has no meaning here"
SOLVER = "expects an error, or the answer, of one of scikit-learn's solvers; there are none to choose from here"
LEGACY = "results are laid out as with use_legacy_attributes=False, and refit=False is not there"
NO_MINIMUM = "a class without a row of positive weight is refused: its intercept would have to be minus infinity"
PRIVATE = "calls a private function of scikit-learn with the parameters, or on the attributes, of its own classes"
CALLBACKS = "there are no callbacks of scikit-learn"
ROUTING = "metadata are not routed: sample_weight is given to every scorer, and other names are refused by Python"
ALGORITHMS = "other algorithms than lasso_cd and lasso_lars have other objectives, and are refused"
REASONS: dict[str, str] = {  # patterns of names of tests: why they fail
    r"test_enet_nonfinite_params": SOLVED,
    r"test_enet_coordinate_descent_raises_convergence": SOLVED,
    r"test_sparse_enet_coordinate_descent": SOLVED,
    r"test_lasso_dual_gap": "compares a gap of the size of rounding, 1e-15, to seven digits",
    r"test_lassocv_alphas_validation": WORDS,
    r"test_path_unknown_parameter": WORDS,
    r"test_enet_l1_ratio": WORDS,
    r"test_sparse_encoder_feature_number_error": WORDS,
    r"test_warm_start$": "expects five iterations twice to be ten: a restart forgets the momentum of FISTA",
    r"test_warm_start_convergence": COUNTS,
    r"test_lasso_alpha_warning": "alpha = 0 is solved like any other, so there is no warning",
    r"test_multioutput_enetcv_error": SEVERAL,
    r"test_enet_path_positive": SEVERAL,
    r"test_1d_multioutput_": "compares to seven digits with MultiTask estimators of scikit-learn, solved to tol = 1e-4",
    r"test_elasticnet_precompute_incorrect_gram": GRAM,
    r"test_overridden_gram_matrix": GRAM,
    r"test_lassoCV_does_not_set_precompute": "replaces a function inside scikit-learn, which is not called here",
    r"test_check_input_false": NO_CHECK,
    r"test_enet_copy_X": NO_CHECK,
    r"test_enet_sample_weight_does_not_overwrite_sample_weight": NO_CHECK,
    r"test_enet_path_check_input_false": NO_CHECK,
    r"test_cv_estimators_reject_params_with_no_routing_enabled": "fit(groups=) is given to the splitter, as documented",
    r"test_path_function_deprecated_n_alphas": "n_alphas, which scikit-learn removes, was never a parameter here",
    r"test_sparse_encode_.*(omp|[-\[]lars\]|threshold)": ALGORITHMS,
    r"test_sparse_coder_parallel_mmap": "there is no n_jobs: one batch on the threads of PyTorch",
    r"test_sparse_encode_(error_default_sparsity|shapes|input)": ALGORITHMS,
    r"test_check_solver_option": SOLVER,
    r"test_liblinear_(dual_random_state|with_large_values|multiclass_raises)": SOLVER,
    r"test_large_sparse_matrix": SOLVER,
    r"test_dtype_match\[.*liblinear\]": "float32 is kept, where liblinear returns float64",
    r"test_max_iter": "warns of too few iterations in other words",
    r"test_logistic_regression_solvers_multiclass\[": "100 Newton steps are not 100 of our iterations: it warns",
    r"test_newton_cholesky_fallback_to_lbfgs": "separable data and C=1e30 have next to no minimum: tol is not reached",
    r"test_sparsify": "there are no sparsify and densify",
    r"test_(logistic_cv\[|multinomial_cv_iris|n_iter\[True|scores_attribute_layout)": LEGACY,
    r"test_LogisticRegressionCV_(no_refit|elasticnet_attribute_shapes|on_folds)": LEGACY,
    r"test_multinomial_logistic_regression_string_inputs": NO_MINIMUM,
    r"test_logistic_cv_folds_with_classes_missing": NO_MINIMUM,
    r"test_logistic_cv_multinomial_score": PRIVATE,
    r"test_logreg_predict_proba_multinomial": PRIVATE,
    r"test_get_default_scorer": PRIVATE,
    r"test_logistic_regression_callback": CALLBACKS,
    r"test_lr_cv_scores_differ_when_sample_weight_is_requested": ROUTING,
    r"test_passing_params_without_enabling_metadata_routing": ROUTING,
    r"test_(l1_ratio_non_elasticnet|penalty_none|penalty_deprecated|l1_ratio_None_deprecated)": WARNINGS,
    r"test_(lr_penalty_l1ratio_incompatible|lr_scoring_warns|logisticregression_warns_with_n_jobs)": WARNINGS,
    r"test_logisticregressioncv_warns_with_use_legacy_attributes": WARNINGS,
}


class Penalised:
    """`LogisticRegression` that obeys `penalty`, which scikit-learn has deprecated and its tests still use."""

    penalty: Any

    def _fit_checked(self, X: Any, labels: Any, given: Any, C: float, ratio: float) -> None:
        C = C if self.penalty else math.inf
        super()._fit_checked(X, labels, given, C, {"l1": 1.0, "l2": 0.0}.get(self.penalty, ratio))  # type: ignore[misc]


def put_in() -> None:
    """Give the names of scikit-learn to classes of sureprox."""
    import sklearn.decomposition
    import sklearn.linear_model

    import sureprox.sklearn as ours

    for name in LINEAR:
        fields = [(key, Any, dataclasses.field(default=value)) for key, value in IGNORED[name].items()]
        bases = (Penalised, getattr(ours, name)) if name == "LogisticRegression" else (getattr(ours, name),)
        made = dataclasses.make_dataclass(name, fields, bases=bases, kw_only=True, eq=False, repr=False)
        made.__module__ = __name__
        setattr(sklearn.linear_model, name, made)
    for name in PATHS:
        setattr(sklearn.linear_model, name, getattr(ours, name))
    for name in CODING:
        setattr(sklearn.decomposition, name, getattr(ours, name))


def pytest_configure(config: Any) -> None:
    """This file is a plugin of the pytest that it starts."""
    put_in()


def run(target: Path, plugins: list[str], report: Path) -> list[dict[str, Any]]:
    """Outcome of every test of a file."""
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider"]
    command += ["-c", "/dev/null", f"--rootdir={target.parent}", f"--junitxml={report}", f"--timeout={TIMEOUT}"]
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}  # without it, checks of the array API are skipped
    subprocess.run([*command, str(target)], check=False, stdout=subprocess.DEVNULL, env=environment)
    return outcomes(report)


def outcomes(report: Path) -> list[dict[str, Any]]:
    from xml.etree import ElementTree

    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag: child for child in case}
        failed = kinds.get("failure", kinds.get("error"))
        outcome = "failed" if failed is not None else "skipped" if "skipped" in kinds else "passed"
        first = "" if failed is None else re.sub(r"\s+", " ", failed.get("message", "")).strip()[:160]
        found.append({"test": case.get("name"), "outcome": outcome, "error": first})
    return found


def reason(test: str) -> str | None:
    """Of the failure of this test."""
    return next((why for pattern, why in REASONS.items() if re.match(pattern, test)), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="", help="only files with this in their name")
    chosen = parser.parse_args().name
    import sklearn

    known = json.loads(RECORD.read_text())["files"] if RECORD.exists() else {}
    unexplained = 0
    targets = {name: (Path(sklearn.__file__).parent / path, ["-p", "sklearn_tests"]) for name, path in FILES.items()}
    targets[CHECKS] = ROOT / "tests/estimators/test_estimator_checks.py", ["-k", "test_scikit_learn_checks"]
    with tempfile.TemporaryDirectory() as folder:
        for name, (target, plugins) in targets.items():
            if chosen not in name:
                continue
            tests = run(target, plugins, Path(folder) / "report.xml")
            failures = [{"test": one["test"], "error": one["error"]} for one in tests if one["outcome"] == "failed"]
            counts = Counter(one["outcome"] for one in tests)
            unexplained += sum(reason(one["test"]) is None for one in failures)
            known[name] = {"scikit-learn": sklearn.__version__, **counts, "failures": failures}
            print(name, dict(counts), flush=True)
            for one in failures:
                print(f"  {one['test']}: {reason(one['test']) or 'NO REASON: ' + one['error']}", flush=True)
    write(known)
    return 1 if unexplained else 0


def write(files: dict[str, Any]) -> None:
    """The record: outcomes by file, how many of each, and how many failures have each reason."""
    sys.path.append(str(ROOT / "benchmarks"))
    from _record import write_record

    for found in files.values():
        found["failures"] = [one | {"reason": reason(one["test"])} for one in found["failures"]]
    counts = {name: {outcome: found.get(outcome, 0) for outcome in OUTCOMES} for name, found in files.items()}
    why = Counter(failure["reason"] or "unexplained" for found in files.values() for failure in found["failures"])
    about = {
        "command": "python scripts/sklearn_tests.py",
        "counts": counts,
        "reasons": {one: {"failures": many} for one, many in why.most_common()},
    }
    write_record("sklearn_tests", about | {"files": files})


if __name__ == "__main__":
    sys.exit(main())
