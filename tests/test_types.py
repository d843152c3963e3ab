"""Under pytest the shapes written in signatures are checked at every call."""

import dataclasses
import importlib
import sys

import jaxtyping
import pytest
import torch

import shape_checks
from helpers import normal, random_problem

CHECKED = """
from dataclasses import dataclass
from sureprox.base.types import Scalars, Vectors

def sums(x: Vectors, *others: int, wrong: bool = False) -> Scalars:
    return x if wrong else x.sum(1)

@dataclass(frozen=True)
class Pair:
    x: Vectors
    value: Scalars

    @property
    def best(self) -> Vectors | None:
        def first(x: Vectors) -> Vectors:
            return x if len(x) < 9 else x[0]
        return first(self.x)
"""


@pytest.mark.parametrize(
    "call",
    [
        lambda problem: problem.prox(normal(3, 12), normal(3, 5).abs()),
        lambda problem: problem.prox(normal(3, 12), torch.tensor(0.1, dtype=torch.float64)),
        lambda problem: problem.duality_gap(normal(12)),
    ],
)
def test_a_wrong_shape_is_caught(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call(random_problem("lasso", batch=3, n=12))


def test_a_metric_may_have_one_step_per_instance_or_per_coordinate():
    problem = random_problem("lasso", batch=3, n=12)
    step = normal(3, 1).abs()
    assert torch.equal(problem.prox(normal(3, 12), step), problem.prox(normal(3, 12), step.expand(3, 12)))


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """A module whose functions and dataclasses are checked."""
    (tmp_path / "checked_package.py").write_text(CHECKED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    shape_checks.install("checked_package")
    yield importlib.import_module("checked_package")
    del sys.modules["checked_package"]


def test_a_call_is_checked_after_any_number_of_good_ones(checked):
    for _ in range(3):
        assert checked.sums(torch.ones(2, 3)).tolist() == [3, 3]
    for bad in (torch.ones(2), torch.ones(2, 3, 1), torch.ones(2, 3, dtype=torch.int64), [[1.0]], None):
        with pytest.raises(jaxtyping.TypeCheckError):
            checked.sums(bad)
    assert checked.sums(torch.ones(2, 4, dtype=torch.float64)).tolist() == [4, 4]


def test_what_is_returned_is_checked_after_any_number_of_good_ones(checked):
    results = [checked.sums(torch.ones(2, 3), wrong=False) for _ in range(3)]
    assert torch.equal(results[0], results[2])
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
            checked.sums(torch.ones(2, 3), wrong=True)


def test_fields_of_dataclasses_properties_and_inner_functions_are_checked(checked):
    x = torch.ones(2, 3)
    for _ in range(2):
        pair = checked.Pair(x, torch.ones(2))
        assert torch.equal(pair.best, x)
        with pytest.raises(jaxtyping.TypeCheckError):
            checked.Pair(x, torch.ones(3))  # not as many as there are rows
        with pytest.raises(jaxtyping.TypeCheckError):
            dataclasses.replace(pair, x=x[0])
        with pytest.raises(jaxtyping.TypeCheckError):
            _ = checked.Pair(torch.ones(9, 3), torch.ones(9)).best


def test_functions_without_shapes_are_left_alone():
    def plain(x: int) -> int:
        return x

    assert shape_checks.check(plain) is plain
