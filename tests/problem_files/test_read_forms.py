"""Reading other losses, penalties and sparse matrices: the problem is the one that its constructors make."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from test_read_problem import damaged

import sureprox as sp
from sureprox.problems import LeastSquares, Separable
from sureprox.sources.problem_files import Asked, LossName, from_arrays, read_groups, read_problem
from sureprox.sources.problem_files.asked import KEYS, check_names

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((12, 7)), RNG.standard_normal(12)
MANY_A, MANY_B = RNG.standard_normal((3, 12, 7)), RNG.standard_normal((3, 12))
W, SHIFT = RNG.random(12), RNG.standard_normal(12)
LABELS, GROUPS = (B > 0).astype(float), [0, 0, 1, 1, 2, -1, 2]


def same(problem, expected):
    """The same value and gradient somewhere, and the same numbers of the penalty."""
    assert (type(problem.f), type(problem.r).__name__) == (type(expected.f), type(expected.r).__name__)
    assert (problem.batch, problem.n, problem.dtype) == (expected.batch, expected.n, expected.dtype)
    x = torch.from_numpy(np.random.default_rng(1).random((problem.batch, problem.n))).to(problem.dtype)
    assert torch.equal(problem.objective(x), expected.objective(x))
    assert torch.equal(problem.grad(x), expected.grad(x))
    assert torch.equal(
        problem.prox(x, torch.full_like(x[:, :1], 0.3)), expected.prox(x, torch.full_like(x[:, :1], 0.3))
    )


CASES = {
    "l1 of each coordinate": (
        {"b": B, "l1": np.arange(7.0)},
        {},
        lambda: sp.Problem(LeastSquares(A, B), Separable(np.arange(7.0))),
    ),
    "elastic net": (
        {"b": MANY_B, "lam": [0.1, 0.2, 0.3], "l2": 0.5},
        {},
        lambda: sp.Problem(LeastSquares(A, MANY_B), Separable(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), 0.5)),
    ),
    "bounds": (
        {"b": B, "low": -1.0, "high": np.full(7, np.inf)},
        {},
        lambda: sp.Problem(LeastSquares(A, B), Separable(low=-1.0, high=np.full(7, np.inf))),
    ),
    "nonnegative": ({"b": B}, {"nonnegative": True}, lambda: sp.Problem(LeastSquares(A, B), Separable(low=0.0))),
    "weights": (
        {"b": B, "weights": W, "offset": SHIFT, "lam": 0.1},
        {},
        lambda: sp.Problem(LeastSquares(A, B, W, SHIFT), sp.penalties.L1(0.1)),
    ),
    "logistic": (
        {"y": LABELS, "weights": W, "offset": SHIFT, "lam": 0.1},
        {},
        lambda: sp.Problem(sp.losses.Logistic(A, LABELS, weights=W, offset=SHIFT), sp.penalties.L1(0.1)),
    ),
    "huber": (
        {"b": B, "lam": 0.1, "l2": 0.2},
        {"loss": "huber", "delta": 0.4},
        lambda: sp.Problem(sp.losses.Huber(A, B, 0.4), Separable(0.1, 0.2)),
    ),
    "quantile": (
        {"y": B, "lam": 0.1},
        {"loss": "quantile", "level": 0.2, "smoothing": 0.3},
        lambda: sp.Problem(sp.losses.Quantile(A, B, 0.2, 0.3), sp.penalties.L1(0.1)),
    ),
    "softmax": (
        {"y": LABELS, "lam": 0.1},
        {"loss": "softmax", "classes": 3},
        lambda: sp.Problem(sp.losses.Softmax(A, LABELS, 3), sp.penalties.L1(0.1)),
    ),
    "groups": (
        {"b": B, "lam": 0.1, "groups": GROUPS, "group_weights": [1.0, 2.0, 0.5]},
        {},
        lambda: sp.group_lasso(A, B, GROUPS, 0.1, [1.0, 2.0, 0.5]),
    ),
    "sparse groups": (
        {"b": B, "lam": 0.1, "l1": 0.2, "groups": GROUPS},
        {},
        lambda: sp.Problem(LeastSquares(A, B), sp.penalties.SparseGroup(GROUPS, 0.2, 0.1)),
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_npz_and_arrays_give_the_problem(tmp_path, name):
    content, options, make = CASES[name]
    np.savez(tmp_path / "p.npz", A=A, **content)
    found = read_problem([tmp_path / "p.npz"], **options)
    same(found.problem, make())
    same(from_arrays({"A": A} | content, **options).problem, make())
    if "loss" in options:
        assert found.loss is LossName(options["loss"])
        assert found.kind.startswith(options["loss"])


def test_mat_has_the_same_keys(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    content = {"A": A, "b": B[:, None], "l1": np.arange(7.0)[:, None], "l2": 0.5, "weights": W[:, None]}
    scipy_io.savemat(tmp_path / "p.mat", content)
    expected = sp.Problem(LeastSquares(A, B, W), Separable(np.arange(7.0), 0.5))
    same(read_problem([tmp_path / "p.mat"]).problem, expected)
    scipy_io.savemat(tmp_path / "p.mat", {"A": A, "b": B[:, None], "groups": [GROUPS], "lam": 0.1})
    same(read_problem([tmp_path / "p.mat"]).problem, sp.group_lasso(A, B, GROUPS, 0.1))


def test_what_numbers_mean_where_lengths_are_alike():
    """Of n numbers, one for each coordinate; of B, one for each problem; where both are the same, neither."""
    per_problem = from_arrays({"A": A, "b": MANY_B, "l2": [1.0, 2.0, 3.0], "lam": 1.0}).problem
    assert per_problem.r.l2.tolist() == [1, 2, 3]
    path = from_arrays({"A": A, "b": B, "l2": [1.0, 2.0], "lam": 1.0}).problem
    assert path.batch == 2
    square = RNG.standard_normal((12, 3))
    with pytest.raises(sp.InputError, match="l2 has 3 numbers, and there are 3 problems of 3 coordinates"):
        from_arrays({"A": square, "b": MANY_B, "l2": [1.0, 2.0, 3.0], "lam": 1.0})
    by_option = from_arrays({"A": square, "b": MANY_B}, l2=[1.0, 2.0, 3.0], lam=1.0).problem
    x = torch.ones(3, 3, dtype=torch.float64)
    assert by_option.r.value(x).tolist() == [3 + 1.5, 3 + 3, 3 + 4.5]


def test_lam_ratio_is_the_share_of_the_smallest_lam_with_solution_zero():
    cases = (
        ({}, {"nonnegative": True}),
        ({}, {"l2": 3.0}),
        ({"groups": [*GROUPS[:5], 2, 2], "l1": 0.1}, {}),
        ({"high": 0.5}, {}),
    )
    for content, options in cases:
        for ratio, zero in ((1 + 1e-9, True), (1 - 1e-3, False)):
            problem = from_arrays({"A": A, "b": B} | content, lam_ratio=ratio, **options).problem
            assert (float(problem.kkt_residual(torch.zeros(1, 7, dtype=torch.float64))) == 0) is zero


def test_options_are_checked():
    with pytest.raises(sp.InputError, match="there is no option 'smothing'; did you mean 'smoothing'"):
        from_arrays({"A": A, "b": B}, smothing=1.0)
    assert Asked(kind="lasso", loss="squares").named_loss is LossName.SQUARES
    with pytest.raises(sp.InputError, match="holds both b and y; for the loss huber"):
        from_arrays({"A": A, "b": B, "y": B, "lam": 1.0}, loss="huber")


def test_names_that_are_not_misspelt_are_let_through():
    check_names("p.npz", ["A", "b", "lam", "x_true", "name", "seed", "noise", "lam_max", "history", "x", "s", "meta"])
    check_names("p.npz", ["weights", "weight"])  # the key is there: the other one is something else
    for key in KEYS:
        if len(key) > 2:
            with pytest.raises(sp.InputError, match=f"did you mean '{key}'"):
                check_names("p.npz", [f"{key}s" if key[-1] != "s" else key[:-1]])


# --- sparse ----------------------------------------------------------------------------------------------------------


def fields(matrix):
    return {"A_data": matrix.data, "A_indices": matrix.indices, "A_indptr": matrix.indptr, "A_shape": matrix.shape}


def test_sparse_in_every_layout(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(12, 7, 0.4, random_state=0, format="csr")
    dense = torch.from_numpy(matrix.toarray())
    np.save(tmp_path / "b.npy", B)
    for layout in ("csr", "csc", "coo"):
        for compressed in (True, False):
            sparse.save_npz(tmp_path / "A.npz", matrix.asformat(layout), compressed=compressed)
            found = read_problem([tmp_path / "A.npz", tmp_path / "b.npy"], lam=0.3).problem
            assert isinstance(found.f.A, sp.operators.Sparse)
            assert torch.equal(found.f.A.dense(), dense)
    single = matrix.astype(np.float32)
    assert from_arrays(fields(single) | {"b": B, "lam": 1.0}).problem.dtype == torch.float32
    for given in (matrix, dense.to_sparse(), sp.operators.Sparse(matrix)):
        assert torch.equal(from_arrays({"A": given, "b": B, "lam": 1.0}).problem.f.A.dense(), dense)
    assert from_arrays({"A": matrix, "b": B, "lam": 1.0}, dtype=torch.float32).problem.dtype == torch.float32
    assert from_arrays({"A": sp.operators.Difference(13), "b": B, "lam": 1.0}).problem.n == 13


def test_reading_a_sparse_file_needs_neither_scipy_nor_a_dense_copy(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    m, n = 4000, 1500
    matrix = sparse.random(m, n, 0.01, random_state=0, format="csr")
    sparse.save_npz(tmp_path / "A.npz", matrix, compressed=False)
    np.save(tmp_path / "b.npy", np.ones(m))
    size = (tmp_path / "A.npz").stat().st_size
    tracemalloc.start()
    found = read_problem([tmp_path / "A.npz", tmp_path / "b.npy"], lam_ratio=0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * size < m * n * 8 / 9
    held = sum(tensor.numel() * tensor.element_size() for tensor in found.problem.f.A.tensors())
    assert held < 3 * size
    code = (
        "import sys; from sureprox.sources.problem_files import read_problem; "
        f"print(read_problem([{str(tmp_path / 'A.npz')!r}, {str(tmp_path / 'b.npy')!r}], lam=1.0).problem.n); "
        "assert 'scipy' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240).stdout
    assert told.strip() == str(n)


def test_damaged_sparse_files_are_read_or_refused_in_one_line(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(12, 7, 0.4, random_state=0, format="csr")
    path, rng = tmp_path / "A.npz", np.random.default_rng(2)
    np.save(tmp_path / "b.npy", B)
    refusals = accepted = 0
    for compressed in (True, False):
        sparse.save_npz(path, matrix, compressed=compressed)
        original = path.read_bytes()
        for _ in range(120):
            path.write_bytes(damaged(original, rng))
            try:
                found = read_problem([path, tmp_path / "b.npy"], lam=1.0)
            except sp.InputError as error:
                refusals += "\n" not in str(error)
            else:
                accepted += bool(torch.isfinite(found.problem.f.A.values).all())
    assert refusals > 50
    assert refusals + accepted == 240


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_of_a_file(tmp_path):
    (tmp_path / "g.txt").write_text("\ufeff0, 0\n1 1\n\n2 -1,2\n")
    np.save(tmp_path / "g.npy", np.array(GROUPS, dtype=np.int8)[:, None])
    for name in ("g.txt", "g.npy"):
        assert read_groups(tmp_path / name).tolist() == GROUPS
    for content, said in ((b"", "has no numbers"), (b"0 1.5", "line 1 has '1.5'"), (b"\xff\xfe\x00", "is not text")):
        (tmp_path / "bad.txt").write_bytes(content)
        with pytest.raises(sp.InputError, match=said):
            read_groups(tmp_path / "bad.txt")
    (tmp_path / "bad.txt").write_text("0 99999999999999999999999\n")
    with pytest.raises(sp.InputError, match="groups are numbered from 0"):
        read_groups(tmp_path / "bad.txt")
    np.save(tmp_path / "bad.npy", np.ones((2, 3)))
    with pytest.raises(sp.InputError, match="one whole number for each coordinate"):
        read_groups(tmp_path / "bad.npy")
    with pytest.raises(sp.InputError, match="is a directory"):
        read_groups(tmp_path)
