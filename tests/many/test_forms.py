"""`solve_many` on other forms: the same answers as one solve, labels that know them, memory of sparse matrices."""

import json

import numpy as np
import pytest
import torch
from cases import M, N, problems

import sureprox as sp
from sureprox.many.labels import problem_digest
from sureprox.many.memory import LARGE, memory_needed
from sureprox.problems import LeastSquares, Separable

F64 = torch.float64
TOL, MOST = 1e-7, 3000
A, B = problems(0, 6).f.A, problems(0, 6).f.b
GROUPS = np.arange(N) // 4


def arrays(folder):
    np.save(folder / "A.npy", A)
    np.save(folder / "b.npy", B)
    return [folder / "A.npy", folder / "b.npy"]


CASES = {
    "elastic net": ({"l1": 0.3, "l2": 0.5}, lambda: sp.elastic_net(A, B, 0.3, 0.5)),
    "nonnegative": ({"nonnegative": True, "lam": 0.2}, lambda: sp.nonnegative(A, B, 0.2)),
    "huber": ({"loss": "huber", "delta": 0.5, "l1": 0.5}, lambda: huber(0.5)),
    "own l1": (
        {"loss": "huber", "delta": 0.5, "l1": np.linspace(0.5, 0.8, 6)},
        lambda: huber(np.linspace(0.5, 0.8, 6)),
    ),
    "groups": ({"groups": GROUPS, "lam": 0.6}, lambda: sp.group_lasso(A, B, GROUPS, 0.6)),
}


def huber(l1):
    return sp.Problem(sp.losses.Huber(A, B, delta=0.5), sp.penalties.L1(torch.as_tensor(l1, dtype=F64)))


@pytest.mark.parametrize("name", list(CASES))
def test_arrays_on_disk_are_cut_and_solved_as_one_problem(tmp_path, name):
    options, make = CASES[name]
    found = sp.solve_many(arrays(tmp_path), out=tmp_path / "out", chunk=4, tol=TOL, max_iter=MOST, **options)
    assert found.all_converged
    x = torch.cat([part.x for part in found])
    torch.testing.assert_close(x, sp.solve(make(), tol=TOL, max_iter=MOST).x, rtol=0, atol=1e-3)
    assert bool(x.any())
    assert (
        sp.solve_many(arrays(tmp_path), out=tmp_path / "out", chunk=4, tol=TOL, max_iter=MOST, **options).problems == 6
    )


def test_a_run_goes_on_with_the_same_options_only(tmp_path):
    source, out = arrays(tmp_path), tmp_path / "out"
    given = {"loss": "huber", "l1": 0.3, "l2": 0.1}
    sp.solve_many(source, out=out, **given)
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    assert (settings["loss"], settings["l1"], settings["l2"]) == ("huber", 0.3, 0.1)
    for changes in ({"l2": 0.2}, {"delta": 2.0}, {"nonnegative": True}, {"loss": "quantile"}):
        with pytest.raises(sp.InputError, match=f"was begun with {next(iter(changes))}"):
            sp.solve_many(source, out=out, **(given | changes))
    sp.solve_many(source, out=tmp_path / "g", groups=GROUPS, lam=1.0)
    with pytest.raises(sp.InputError, match="was begun with groups"):
        sp.solve_many(source, out=tmp_path / "g", groups=GROUPS[::-1].copy(), lam=1.0)


def test_a_lasso_manifest_is_what_it_was(tmp_path):
    """So that runs that were begun before there were other forms go on."""
    sp.solve_many(arrays(tmp_path), out=tmp_path / "out", lam=0.5)
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]
    assert not {"loss", "l1", "l2", "nonnegative", "groups", "delta"} & set(settings)


def test_items_name_any_loss(tmp_path):
    items = [
        ("huber", {"A": A.numpy(), "y": B.numpy(), "l1": 0.6, "weights": np.ones(M)}),
        ("lasso", {"A": A, "b": B, "l2": 1.0}),
    ]
    found = list(sp.solve_many(items, tol=TOL, max_iter=MOST))
    expected = sp.Problem(sp.losses.Huber(A, B), sp.penalties.L1(0.6))
    torch.testing.assert_close(found[0].x, sp.solve(expected, tol=TOL, max_iter=MOST).x, rtol=0, atol=1e-3)
    ridge = torch.linalg.solve(A.T @ A + torch.eye(N, dtype=F64), A.T @ B.T).T
    torch.testing.assert_close(found[1].x, ridge, rtol=0, atol=1e-3)
    with pytest.raises(sp.InputError, match="there is an array 'weigths'; did you mean 'weights'"):
        list(sp.solve_many([("lasso", {"A": A, "b": B, "weigths": 1.0})]))


def test_a_changed_key_of_a_file_is_seen(tmp_path):
    (tmp_path / "in").mkdir()
    for l2, expected in ((1.0, None), (1.0, None), (2.0, "is of other problems")):
        np.savez(tmp_path / "in" / "p.npz", A=A, b=B, l1=0.2, l2=l2)
        if expected is None:
            sp.solve_many(tmp_path / "in", out=tmp_path / "out")
        else:
            with pytest.raises(sp.InputError, match=expected):
                sp.solve_many(tmp_path / "in", out=tmp_path / "out")


def test_labels_tell_forms_with_the_same_numbers_apart():
    f = LeastSquares(A, B)
    half = torch.full((6,), 0.5, dtype=F64)
    weights = torch.rand(6, M, dtype=F64, generator=torch.Generator().manual_seed(0))
    labels = (weights > 0.5).double()
    made = [
        sp.Problem(f, Separable(l1=half, l2=half)),
        sp.Problem(f, Separable(l1=half, low=half)),
        sp.Problem(f, Separable(l2=half)),
        sp.Problem(f, Separable(low=half)),
        sp.Problem(f, Separable(high=half)),
        sp.Problem(f, Separable(l1=half)),
        sp.Problem(f, sp.penalties.GroupL2(GROUPS, half)),
        sp.Problem(f, sp.penalties.GroupL2(GROUPS[::-1].copy(), half)),
        sp.Problem(sp.losses.Logistic(A, labels, weights=weights), Separable(l1=half)),
        sp.Problem(sp.losses.Logistic(A, labels, offset=weights), Separable(l1=half)),
        sp.Problem(sp.losses.Huber(A, B, delta=1.0), Separable(l1=half)),
        sp.Problem(sp.losses.Huber(A, B, delta=2.0), Separable(l1=half)),
    ]
    assert len({problem_digest(problem) for problem in made}) == len(made)


@pytest.mark.parametrize("rows", [LARGE, 500])
def test_memory_of_a_shared_matrix_is_counted_once(rows):
    """A of as many rows, or entries, as there are instances in a count is not taken for data of each."""
    generator = torch.Generator().manual_seed(0)
    dense = torch.randn(rows, 40, generator=generator, dtype=F64)
    dense = torch.where(dense.abs() > 1.6, dense, 0.0)
    b = torch.randn(2, rows, generator=generator, dtype=F64)
    shared, sparse = sp.lasso(dense, b, 1.0), sp.lasso(dense.to_sparse(), b, 1.0)
    restarted = sp.optimizers.FISTA(restart=True)
    by_dense, by_sparse = (memory_needed(problem, restarted, certify=False) for problem in (shared, sparse))
    own = memory_needed(sp.lasso(dense.expand(2, rows, 40).contiguous(), b, 1.0), restarted, certify=False)
    assert by_dense.each < 0.3 * own.each
    assert by_sparse.each == pytest.approx(by_dense.each, rel=0.5)


def test_a_sparse_matrix_is_read_for_every_shard(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(30, 12, 0.2, random_state=2, format="csr")
    b = np.random.default_rng(0).standard_normal((5, 30))
    sparse.save_npz(tmp_path / "A.npz", matrix)
    np.save(tmp_path / "b.npy", b)
    source, out = [tmp_path / "A.npz", tmp_path / "b.npy"], tmp_path / "out"
    found = sp.solve_many(source, out=out, lam=0.2, chunk=2, tol=TOL, max_iter=MOST)
    assert [len(part) for part in found] == [2, 2, 1]
    expected = sp.solve(sp.lasso(matrix.toarray(), b, 0.2), tol=TOL, max_iter=MOST).x
    torch.testing.assert_close(torch.cat([part.x for part in found]), expected, rtol=0, atol=1e-3)
    assert sp.solve_many(source, out=out, lam=0.2, chunk=2, tol=TOL, max_iter=MOST).problems == 5
    sparse.save_npz(tmp_path / "A.npz", 2 * matrix)
    with pytest.raises(sp.InputError, match="is of other problems"):
        sp.solve_many(source, out=out, lam=0.2, chunk=2, tol=TOL, max_iter=MOST)
