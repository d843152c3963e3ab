"""scikit-learn's own tests of the estimators that sureprox has too, run with the classes of sureprox put in.

    python scripts/sklearn_tests.py                 all files, and a record in benchmarks/records/sklearn_tests.json
    python scripts/sklearn_tests.py coordinate      only files with this in their name, no record

The tests import their estimators from scikit-learn; before they do, those names are given to classes of sureprox that
also take, and ignore, parameters of scikit-learn's solvers (`IGNORED`). Every failure is listed with a reason
(`REASONS`); one without a reason makes the script fail. Tests that use none of the names pass whatever sureprox does:
they are counted too, as `untouched`, by whether a test of a module uses a name that was put in.
"""

import argparse
import dataclasses
import json
import re
import subprocess
import sys
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
TIMEOUT = 120  # seconds for a test, which then fails

REASONS: dict[str, str] = {}


def put_in() -> None:
    """Give the names of scikit-learn to classes of sureprox."""
    import sklearn.decomposition
    import sklearn.linear_model

    import sureprox.sklearn as ours

    for name in LINEAR:
        fields = [(key, Any, dataclasses.field(default=value)) for key, value in IGNORED[name].items()]
        base = getattr(ours, name)
        made = dataclasses.make_dataclass(name, fields, bases=(base,), kw_only=True, eq=False, repr=False)
        made.__module__ = __name__
        setattr(sklearn.linear_model, name, made)
    for name in PATHS:
        setattr(sklearn.linear_model, name, getattr(ours, name))
    for name in CODING:
        setattr(sklearn.decomposition, name, getattr(ours, name))


def pytest_configure(config: Any) -> None:
    """This file is a plugin of the pytest that it starts."""
    put_in()


def run(path: str, report: Path) -> list[dict[str, Any]]:
    """Outcome of every test of a file."""
    import sklearn

    target = Path(sklearn.__file__).parent / path
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sklearn_tests", "-p", "no:cacheprovider"]
    command += ["-c", "/dev/null", f"--rootdir={target.parent}", f"--junitxml={report}", f"--timeout={TIMEOUT}"]
    subprocess.run([*command, str(target)], check=False, stdout=subprocess.DEVNULL)
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
    import tempfile

    import sklearn

    record: dict[str, Any] = {"scikit-learn": sklearn.__version__, "files": {}}
    unexplained = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, path in FILES.items():
            if chosen not in name:
                continue
            tests = run(path, Path(folder) / "report.xml")
            failures = [
                {"test": one["test"], "reason": reason(one["test"]), "error": one["error"]}
                for one in tests
                if one["outcome"] == "failed"
            ]
            counts = Counter(one["outcome"] for one in tests)
            unexplained += sum(one["reason"] is None for one in failures)
            record["files"][name] = {"path": path, **counts, "failures": failures}
            print(name, dict(counts), flush=True)
            for one in failures:
                print(f"  {one['test']}: {one['reason'] or 'NO REASON: ' + one['error']}", flush=True)
    if not chosen:
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
