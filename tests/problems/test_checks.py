"""Bad input: each case is refused with one line that says what, got, and what to do."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import sureprox as sp
from helpers import F64, labels, normal, random_problem, refused
from sureprox.optimizers import ISTA

NAN, INF = float("nan"), float("inf")
A, b, y = normal(3, 20, 40), normal(3, 20), labels(3, 20)


def spoiled(tensor: torch.Tensor, value: float, *index: int) -> torch.Tensor:
    return tensor.clone().index_put(tuple(torch.tensor(i) for i in index), torch.tensor(value, dtype=tensor.dtype))


SHAPES = {
    "b too short": (lambda: sp.lasso(A, b[:, :19], 0.1), "b has shape (3, 19)", "A of shape (3, 20, 40) needs (3, 20)"),
    "b of another batch": (lambda: sp.lasso(A, b[:2], 0.1), "b has shape (2, 20)", "needs (3, 20)"),
    "b with three dimensions": (lambda: sp.lasso(A, b[None], 0.1), "b has shape (1, 3, 20)", "needs (3, 20)"),
    "b transposed": (lambda: sp.lasso(A[0], b.T, 0.1), "b has shape (20, 3)", "looks transposed: pass b.T"),
    "b a number": (lambda: sp.lasso(A, 1.0, 0.1), "b has shape ()", "needs (3, 20)"),
    "b too short, shared A": (lambda: sp.lasso(A[0], b[0, :5], 0.1), "b has shape (5,)", "(B, 20) or (20,)"),
    "y too long": (lambda: sp.logistic(A[:, :19], y, 0.1), "y has shape (3, 20)", "needs (3, 19)"),
    "A a vector": (lambda: sp.lasso(A[0, 0], b, 0.1), "A has shape (40,)", "pass (B, m, n), or (m, n)"),
    "A with four dimensions": (lambda: sp.lasso(A[None], b, 0.1), "A has shape (1, 3, 20, 40)", "pass (B, m, n)"),
    "lam of another batch": (lambda: sp.lasso(A, b, [0.1, 0.2]), "lam has shape (2,)", "a number or shape (3,)"),
    "lam a matrix": (lambda: sp.lasso(A, b, torch.ones(3, 1, dtype=F64)), "lam has shape (3, 1)", "shape (3,)"),
    "no instances": (lambda: sp.lasso(A[:0], b[:0], 0.1), "A has shape (0, 20, 40)", "empty", "at least one instance"),
    "no instances, shared A": (lambda: sp.lasso(A[0], b[:0], 0.1), "b has shape (0, 20)", "the batch is empty"),
    "no rows": (lambda: sp.lasso(A[:, :0], b[:, :0], 0.1), "A has shape (3, 0, 40)", "empty"),
    "no columns": (lambda: sp.logistic(A[:, :, :0], y, 0.1), "A has shape (3, 20, 0)", "empty"),
}

VALUES = {
    "A nan": (
        lambda: sp.lasso(spoiled(A, NAN, 1, 2, 3), b, 0.1),
        "A has 1 entries",
        "index (1, 2, 3)",
        "clean the data",
    ),
    "A infinite": (lambda: sp.logistic(spoiled(A, -INF, 0, 0, 7), y, 0.1), "A has 1 entries", "index (0, 0, 7)"),
    "b nan": (lambda: sp.lasso(A, spoiled(b, NAN, 2, 5), 0.1), "b has 1 entries that are NaN", "index (2, 5)"),
    "b infinite": (lambda: sp.lasso(A, spoiled(b, INF, 2, 5), 0.1), "b has 1 entries", "index (2, 5)"),
    "y nan": (lambda: sp.logistic(A, spoiled(y, NAN, 2, 5), 0.1), "y has 1 entries that are NaN", "index (2, 5)"),
    "y a half": (lambda: sp.logistic(A, spoiled(y, 0.5, 2, 5), 0.1), "y holds 0.5", "must be 0 or 1"),
    "y minus one": (lambda: sp.logistic(A, 2 * y - 1, 0.1), "y holds -1", "pass (y + 1) / 2"),
    "y integer two": (lambda: sp.logistic(A, 2 * y.long(), 0.1), "y holds 2", "must be 0 or 1"),
    "lam nan": (lambda: sp.lasso(A, b, NAN), "lam has 3 entries that are NaN or infinite"),
    "lam infinite": (lambda: sp.lasso(A, b, [0.1, INF, 0.1]), "lam has 1 entries", "index (1,)"),
    "lam negative": (lambda: sp.lasso(A, b, -0.1), "lam is -0.1", "it must be >= 0"),
    "lam negative somewhere": (lambda: sp.logistic(A, y, [0.1, 0.0, -2.0]), "lam is -2 for some instance", ">= 0"),
    "lam negative, with gradient": (
        lambda: sp.lasso(A, b, torch.tensor([1.0, -1.0, 1.0], dtype=F64, requires_grad=True)),
        "lam is -1 for some instance",
    ),
    "y a half, with gradient": (
        lambda: sp.logistic(A, spoiled(y, 0.5, 2, 5).requires_grad_(), 0.1),
        "y holds 0.5",
    ),
}

KINDS = {
    "A complex": (lambda: sp.lasso(A + 0j, b, 0.1), "A has dtype torch.complex128", "pass float32 or float64"),
    "A sparse and its own": (lambda: sp.lasso(A.to_sparse(), b, 0.1), "A is sparse with shape", "pass (m, n)"),
    "b sparse": (lambda: sp.lasso(A, b.to_sparse(), 0.1), "b has layout torch.sparse_coo", "b.to_dense()"),
    "b of another dtype": (
        lambda: sp.lasso(A, b.float(), 0.1),
        "b has dtype torch.float32",
        "A has torch.float64",
        "b.to",
    ),
    "y of another dtype": (lambda: sp.logistic(A.float(), y, 0.1), "y has dtype torch.float64", "y.to(torch.float32)"),
    "y complex": (lambda: sp.logistic(A, y + 0j, 0.1), "y has dtype torch.complex128"),
    "lam of another dtype": (
        lambda: sp.lasso(A, b, torch.ones(3)),
        "lam has dtype torch.float32",
        "lam.to(torch.float64)",
    ),
    "b on another device": (lambda: sp.lasso(A, b.to("meta"), 0.1), "b is on meta but A is on cpu", "b.to('cpu')"),
    "y on another device": (lambda: sp.logistic(A, y.to("meta"), 0.1), "y is on meta but A is on cpu", "y.to('cpu')"),
    "lam on another device": (
        lambda: sp.lasso(A, b, torch.ones(3, dtype=F64, device="meta")),
        "lam is on meta but A is on cpu",
        "lam.to('cpu')",
    ),
    "A text": (lambda: sp.lasso("A.npy", b, 0.1), "A is a str", "pass a torch tensor or a numpy array"),
    "A nothing": (lambda: sp.lasso(None, b, 0.1), "A is a NoneType", "pass a torch tensor"),
    "A ragged": (lambda: sp.lasso([[1.0, 2.0], [3.0]], b, 0.1), "A is a list", "pass a torch tensor"),
    "A an array of text": (
        lambda: sp.lasso(np.array([["a"]]), b, 0.1),
        "A is a ndarray of <U1",
        "numpy array of floats",
    ),
    "A an array of objects": (lambda: sp.lasso(np.array([[None]]), b, 0.1), "A is a ndarray of object", "numpy array"),
    "b a dict": (lambda: sp.lasso(A, {}, 0.1), "b is a dict", "pass a torch tensor"),
    "y nothing": (lambda: sp.logistic(A, None, 0.1), "y is a NoneType", "pass a torch tensor"),
    "lam text": (lambda: sp.lasso(A, b, "small"), "lam is a str", "pass a number"),
    "lam nothing": (lambda: sp.lasso(A, b, None), "lam is a NoneType", "pass a number"),
    "lam complex": (lambda: sp.lasso(A, b, 1j), "lam is a complex", "pass a number"),
}


@pytest.mark.parametrize("case", [*SHAPES.values(), *VALUES.values(), *KINDS.values()], ids=[*SHAPES, *VALUES, *KINDS])
def test_bad_data_is_refused(case):
    call, *parts = case
    refused(call, *parts)


PROBLEM = random_problem("lasso", batch=3, n=12)
ZEROS = torch.zeros(3, 12, dtype=F64)

STARTS = {
    "another n": (ZEROS[:, :11], "x0 has shape (3, 11)", "needs (3, 12)"),
    "another batch": (ZEROS[:2], "x0 has shape (2, 12)", "needs (3, 12)"),
    "a number": (0.0, "x0 has shape ()", "needs (3, 12)"),
    "nan": (spoiled(ZEROS, NAN, 1, 2), "x0 has 1 entries that are NaN or infinite", "index (1, 2)"),
    "infinite": (spoiled(ZEROS, INF, 1, 2), "x0 has 1 entries", "index (1, 2)"),
    "another dtype": (ZEROS.float(), "x0 has dtype torch.float32", "the problem has torch.float64"),
    "another device": (ZEROS.to("meta"), "x0 is on meta", "x0.to('cpu')"),
    "text": ("zeros", "x0 is a str", "pass a torch tensor"),
}


@pytest.mark.parametrize("case", STARTS.values(), ids=STARTS)
def test_bad_start_is_refused_by_solve_and_by_init(case):
    x0, *parts = case
    refused(lambda: sp.solve(PROBLEM, ISTA(), x0), *parts)
    if isinstance(x0, torch.Tensor) and x0.is_floating_point() and x0.ndim == 2:  # the type init is annotated with
        refused(lambda: ISTA().init(PROBLEM, x0), *parts)


def test_a_start_may_be_one_vector_or_an_array():
    one = normal(12)
    for x0 in (one, one.numpy(), one.tolist(), one.expand(3, 12).numpy()):
        assert torch.equal(PROBLEM.start(x0), one.expand(3, 12))
    assert torch.equal(PROBLEM.start(), ZEROS)


def test_every_error_has_one_root():
    for error in (sp.InputError, sp.WeightsError, sp.ConfigError, sp.TrainingError):
        assert issubclass(error, sp.SureproxError)
    assert issubclass(sp.InputError, ValueError)


def test_masked_entries_are_refused_and_an_empty_mask_is_not():
    A, b = np.ma.masked_array(np.ones((4, 3))), np.ma.masked_array(np.ones(4), mask=[0, 1, 0, 1])
    y = np.ma.masked_array(np.array([0, 1, 1, 0]), mask=[1, 0, 0, 0])
    assert sp.lasso(A, np.ones(4), 0.1).n == 3
    refused(lambda: sp.lasso(A, b, 0.1), "b has 2 masked entries", "fill them")
    refused(lambda: sp.lasso(np.ma.masked_greater(A, 0.5), np.ones(4), 0.1), "A has 12 masked entries")
    refused(lambda: sp.logistic(A, y, 0.1), "y has 1 masked entries")
    refused(lambda: sp.lasso(A, np.ones(4), np.ma.masked_array([0.1, 0.2], mask=[0, 1])), "lam has 1 masked entries")


def test_other_real_numbers_are_converted():
    """Lists, integers and booleans become float64, or what A is; half becomes float32; longer floats float64."""
    pd = pytest.importorskip("pandas")
    whole, right = np.array([[1, 2], [3, 5], [0, 1]]), np.array([1, 0, 1])
    for A in (
        whole,
        whole.tolist(),
        torch.from_numpy(whole),
        whole > 0,
        whole.astype(np.longdouble),
        pd.DataFrame(whole),
    ):
        problem = sp.lasso(A, right, 1)
        assert problem.dtype == F64
        assert torch.equal(problem.f.A, torch.as_tensor(np.asarray(A).astype(np.float64)))
        assert problem.f.b.tolist() == [[1.0, 0.0, 1.0]]
    assert sp.lasso([[0.1]], [0.3], 0.1).f.A.item() == 0.1  # float32 has another 0.1
    for A in (whole.astype(np.float16), torch.from_numpy(whole).bfloat16(), whole.astype(np.float32)):
        problem = sp.lasso(A, right.tolist(), 1)
        assert (problem.dtype, problem.f.b.dtype) == (torch.float32, torch.float32)
    assert torch.equal(PROBLEM.start(ZEROS.long()), ZEROS)
    sparse = sp.lasso(csr_array(whole), right > 0, pd.Series([1, 2]))
    assert sparse.dtype == F64
    dense = sp.lasso(whole, right, [1.0, 2.0])
    assert torch.equal(sp.solve(sparse).x != 0, sp.solve(dense).x != 0)


def test_a_table_of_numbers_is_a_matrix_and_one_with_text_says_which_column():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"height": [1.0, 2.0], "city": ["Bern", "Rom"]})
    refused(
        lambda: sp.lasso(table, [1.0, 2.0], 0.1), "A is a DataFrame with 'city', a column", "cannot read as numbers"
    )
    assert sp.lasso(table[["height"]], pd.Series([1.0, 2.0]), 0.1).n == 1


def test_a_matrix_that_lies_column_by_column_is_solved_as_any_other():
    """As most arrays of numpy and pandas that were sliced or transposed do; one that is only repeated is not copied."""
    generator = torch.Generator().manual_seed(0)
    A, b = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((40, 90), (3, 40)))
    expected = sp.solve(sp.lasso(A, b, 2.0))
    wide = torch.cat([A, A], 1)
    for same in (np.asfortranarray(A.numpy()), wide[:, :90]):
        found = sp.solve(sp.lasso(same, b, 2.0))
        assert found.track.tolist() == expected.track.tolist()
        assert torch.equal(found.x, expected.x)
    repeated = A.expand(3, 40, 90)
    assert sp.lasso(repeated, b, 2.0).f.A.data_ptr() == A.data_ptr()
    columns = A.T.contiguous().T.requires_grad_()
    sp.solve(sp.lasso(columns, b, 2.0)).x.sum().backward()
    assert columns.grad is not None
