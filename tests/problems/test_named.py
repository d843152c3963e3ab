"""Only `problems` names the losses and penalties of this package, and makes classes of problems and their parts."""

import ast
from pathlib import Path

import sureprox

SOURCE = Path(sureprox.__file__).parent
ABSTRACT = {"Smooth", "LinearModel", "Penalty", "Problem"}

# Files that make problems of their own name their parts; everybody else is given a problem and reads its `Form`.
MAKERS = {
    "sources/families.py": "draws random problems",
    "sources/mixtures.py": "draws random problems",
    "sources/form_families.py": "draws random problems",
    "sources/problem_files/assemble.py": "makes the problem that a file asks for",
    "solve/denoising.py": "makes the dual problem",
    "optimizers/prox_newton.py": "minimises a quadratic model, which is a smooth part of its own",
    "sklearn/elastic_net.py": "names the estimator that is called like a penalty",
    "sklearn/folds.py": "makes the problems of the folds",
    "sklearn/group_lasso.py": "makes the problem of an estimator",
    "sklearn/lasso_cv.py": "names the estimator that is called like a penalty",
    "sklearn/stability.py": "makes the problems of the halves",
    "dipy.py": "makes the problems of voxels",
    "sklearn/linear.py": "makes the problems of the estimators for squares, and the penalties of all",
    "sklearn/logistic.py": "makes the problem of an estimator",
    "sklearn/regressors.py": "makes the problems of estimators",
    "sources/form_mixtures.py": "makes mixtures of all forms",
    "sources/problem_files/intercepts.py": "adds a coordinate without cost to the penalty of a table",
    "audit/samples.py": "makes the problems on which the theory is checked, with parts of its own",
    "audit/counterexamples.py": "makes counterexamples",
    "audit/counterexamples_horizon.py": "makes counterexamples",
    "evaluation/paper_prox.py": "is the problem with the operator that the paper prints",
}


def bases(tree: ast.AST) -> dict[str, set[str]]:
    """Of each class, the names of those that it is made of."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            parts = [part.value if isinstance(part, ast.Subscript) else part for part in node.bases]
            found[node.name] = {part.id for part in parts if isinstance(part, ast.Name)}
    return found


def concrete() -> set[str]:
    """The losses, penalties and problems that `problems` defines."""
    known = {}
    for file in (SOURCE / "problems").rglob("*.py"):
        known |= bases(ast.parse(file.read_text()))
    found = set(ABSTRACT)
    while more := {name for name, parents in known.items() if parents & found} - found:
        found |= more
    return found - ABSTRACT


def named(tree: ast.AST, names: set[str]) -> set[str]:
    """What a file uses of these, or makes a class of."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) if _of_a_module(node)}
    subclassed = {name for name, parents in bases(tree).items() if parents & (ABSTRACT | names)}
    return (used & names) | subclassed


def _of_a_module(node: ast.Attribute) -> bool:
    """`losses.L1` names a class; `Shape.L1` does not."""
    return isinstance(node.value, ast.Name) and node.value.id in ("sp", "problems", "losses", "penalties")


def test_nobody_else_names_a_loss_or_a_penalty():
    names = concrete()
    assert names >= {"LeastSquares", "Logistic", "L1", "WeightedL1", "Zero"}
    guilty = {}
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE).as_posix()
        if not place.startswith("problems/") and (found := named(ast.parse(file.read_text()), names)):
            guilty[place] = found
    assert set(guilty) == set(MAKERS), guilty


def test_what_is_looked_for_is_found():
    names = concrete()
    assert named(ast.parse("isinstance(problem.r, L1)"), names) == {"L1"}
    assert named(ast.parse("isinstance(problem.f, sp.LeastSquares)"), names) == {"LeastSquares"}
    assert named(ast.parse("class Mine(Problem): pass"), names) == {"Mine"}
    assert not named(ast.parse("form.penalty is Shape.L1"), names)
