"""`sureprox solve` with other losses and penalties: against other packages, and by their optimality conditions."""

import json

import numpy as np
import pytest

RNG = np.random.default_rng(6)
A, B = RNG.standard_normal((30, 8)), RNG.standard_normal((3, 30))
LABELS = (B > 0).astype(float)
COUNTS = np.round(2 * np.abs(B))
CLASSES = (B > -0.4).astype(int) + (B > 0.4)
GROUPS = np.array([0, 0, 0, 1, 1, 2, 2, 2])
L2 = 0.7


def solved(command, tmp_path, *options):
    """x of a run that converged, and its summary."""
    outcome = command("solve", *options, "--tol", "1e-9", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    with np.load(tmp_path / "solutions.npz") as found:
        return dict(found), json.loads(outcome.out)


def save(tmp_path, name="p.npz", **content):
    np.savez(tmp_path / name, **content)
    return name


@pytest.mark.parametrize("by", ["keys", "options"])
def test_elastic_net_is_scikit_learns(command, tmp_path, by):
    linear_model = pytest.importorskip("sklearn.linear_model")
    keys = {"l1": 3.0, "l2": 2.0} if by == "keys" else {}
    options = [] if by == "keys" else ["--l1", "3", "--l2", "2"]
    x, found = solved(command, tmp_path, save(tmp_path, A=A, b=B, **keys), *options)
    for mine, b in zip(x["x"], B, strict=True):
        model = linear_model.ElasticNet(5 / 30, l1_ratio=0.6, fit_intercept=False, tol=1e-14, max_iter=10**6)
        np.testing.assert_allclose(mine, model.fit(A, b).coef_, atol=1e-5)
    assert 0 < np.count_nonzero(x["x"]) < 24
    assert (found["kind"], found["loss"], found["penalty"]) == ("squares + l1 + l2", "squares", {"l1": 3, "l2": 2})
    assert (str(x["loss"]), float(x["l1"]), float(x["l2"])) == ("squares", 3.0, 2.0)
    assert found["optimizer"] == ("fista-restart" if found["iterations"]["max"] else None)


def test_nonnegative_is_scipys(command, tmp_path):
    optimize = pytest.importorskip("scipy.optimize")
    x, found = solved(command, tmp_path, save(tmp_path, A=A, b=B), "--nonnegative")
    for mine, b in zip(x["x"], B, strict=True):
        np.testing.assert_allclose(mine, optimize.nnls(A, b)[0], atol=1e-5)
    assert (x["x"] == 0).any()
    assert (x["x"] >= 0).all()
    assert (found["kind"], found["penalty"]) == ("squares + nonnegative", {"low": 0})


def test_bounds_of_the_file_are_kept(command, tmp_path):
    optimize = pytest.importorskip("scipy.optimize")
    low, high = np.full(8, -0.1), np.linspace(0.05, 0.2, 8)
    x, found = solved(command, tmp_path, save(tmp_path, A=A, b=B, low=low, high=high))
    for mine, b in zip(x["x"], B, strict=True):
        theirs = optimize.lsq_linear(A, b, (low, high), method="bvls", tol=1e-14).x
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    assert found["penalty"] == {"low": -0.1, "high": [0.05, 0.2]}


VALUES = {
    "squares": ("b", B, [], lambda z, b: 0.5 * ((z - b) ** 2).sum()),
    "logistic": ("y", LABELS, [], lambda z, y: (np.logaddexp(0, z) - y * z).mean()),
    "huber": ("y", B, ["--delta", "0.3"], lambda z, y: huber(z - y, 0.3).sum()),
    "squared-hinge": ("y", LABELS, [], lambda z, y: (np.maximum(0, 1 - (2 * y - 1) * z) ** 2).sum()),
    "poisson": ("y", COUNTS, [], lambda z, y: (np.exp(z) - y * z).sum()),
    "quantile": ("y", B, ["--level", "0.7", "--smoothing", "0.2"], lambda z, y: pinball(z - y).sum()),
    "softmax": ("y", CLASSES, ["--classes", "3"], lambda z, y: softmax(z, y)),
}


def huber(z, delta):
    return np.where(np.abs(z) <= delta, z**2 / 2, delta * (np.abs(z) - delta / 2))


def pinball(z):
    """max_{-0.7 <= v <= 0.3} v z - 0.1 v^2."""
    v = np.clip(z / 0.2, -0.7, 0.3)
    return v * z - 0.1 * v**2


def softmax(z, y):
    top = z.max(0)
    return (top + np.log(np.exp(z - top).sum(0)) - z[y.astype(int), np.arange(len(y))]).sum()


@pytest.mark.parametrize("loss", list(VALUES))
def test_every_loss_is_minimised(command, tmp_path, loss):
    """With l2 alone F is smooth: L-BFGS on its formula in numpy."""
    optimize = pytest.importorskip("scipy.optimize")
    key, target, options, value = VALUES[loss]
    content = {"A": A, key: target, "l2": L2}
    x, found = solved(command, tmp_path, save(tmp_path, **content), "--loss", loss, *options)
    assert (found["loss"], found["kind"], found["penalty"]) == (loss, f"{loss} + l2", {"l2": L2})
    for mine, y in zip(x["x"], target, strict=True):

        def F(w, y=y):
            z = A @ w if loss != "softmax" else w.reshape(3, 8) @ A.T
            return value(z, y) + L2 / 2 * (w**2).sum()

        best = optimize.minimize(F, np.zeros(len(mine)), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-7})
        assert F(mine) <= best.fun * (1 + 1e-7) + 1e-9
        assert F(np.zeros_like(mine)) > best.fun * 1.01


def test_weights_and_offset_of_rows(command, tmp_path):
    """A row of weight 2 counts as two rows, and what is added to A x is taken from b."""
    weights, offset = RNG.integers(0, 3, 30).astype(float), RNG.standard_normal(30)
    weighted, _ = solved(command, tmp_path, save(tmp_path, A=A, b=B, weights=weights, offset=offset, lam=1.5))
    twice = np.repeat(np.arange(30), weights.astype(int))
    plain, _ = solved(command, tmp_path, save(tmp_path, A=A[twice], b=(B - offset)[:, twice], lam=1.5))
    np.testing.assert_allclose(weighted["x"], plain["x"], atol=1e-5)
    assert np.count_nonzero(plain["x"]) > 3


@pytest.mark.parametrize("how", ["text", "npy", "key"])
def test_groups_satisfy_their_optimality_conditions(command, tmp_path, how):
    options, keys = ["--groups", f"groups.{'txt' if how == 'text' else 'npy'}"], {}
    if how == "text":
        (tmp_path / "groups.txt").write_text("0 0 0\n1, 1\n2 2 2\n")
    elif how == "npy":
        np.save(tmp_path / "groups.npy", GROUPS)
    else:
        options, keys = [], {"groups": GROUPS}
    x, found = solved(command, tmp_path, save(tmp_path, A=A, b=B, lam=5.0, **keys), *options)
    zero = 0
    for mine, b in zip(x["x"], B, strict=True):
        g = A.T @ (A @ mine - b)
        for group in range(3):
            part, slope = mine[group == GROUPS], g[group == GROUPS]
            norm = np.linalg.norm(part)
            zero += norm == 0
            if norm == 0:
                assert np.linalg.norm(slope) <= 5.0 + 1e-9
            else:
                np.testing.assert_allclose(slope, -5.0 * part / norm, atol=1e-3)
    assert 0 < zero < 9
    assert (found["kind"], found["penalty"]) == ("squares + groups", {"lam": 5, "groups": 3})
    np.testing.assert_array_equal(x["groups"], GROUPS)


def test_lam_ratio_of_other_forms(command, tmp_path):
    """At the largest lam the solution is zero, a little below it is not."""
    name = save(tmp_path, A=A, b=B)
    np.save(tmp_path / "g.npy", GROUPS)
    for options in (["--nonnegative"], ["--l2", "1"], ["--groups", "g.npy"]):
        at, _ = solved(command, tmp_path, name, "--lam-ratio", "1.000001", *options)
        assert not at["x"].any()
        below, _ = solved(command, tmp_path, name, "--lam-ratio", "0.9", *options)
        assert below["x"].any(1).all()


def test_a_path_of_l1_and_l2(command, tmp_path):
    found, _ = solved(command, tmp_path, save(tmp_path, A=A, b=B[0]), "--l1", "1,2,4", "--l2", "0,1,0.5")
    for i, (l1, l2) in enumerate(((1, 0), (2, 1), (4, 0.5))):
        alone, _ = solved(command, tmp_path, save(tmp_path, A=A, b=B[0]), "--l1", str(l1), "--l2", str(l2))
        np.testing.assert_allclose(found["x"][i], alone["x"][0], atol=1e-6)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "fields"])
def test_sparse_matrices(command, tmp_path, layout):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(40, 12, 0.2, random_state=1, format="csr")
    b = RNG.standard_normal((2, 40))
    dense, _ = solved(command, tmp_path, save(tmp_path, A=matrix.toarray(), b=b, lam=0.2))
    if layout == "fields":
        fields = {"A_data": matrix.data, "A_indices": matrix.indices, "A_indptr": matrix.indptr}
        files = [save(tmp_path, **fields, A_shape=matrix.shape, b=b)]
    else:
        sparse.save_npz(tmp_path / "A.npz", matrix.asformat(layout))
        np.save(tmp_path / "b.npy", b)
        files = ["A.npz", "b.npy"]
    found, summary = solved(command, tmp_path, *files, "--lam", "0.2")
    np.testing.assert_allclose(found["x"], dense["x"], atol=1e-5)
    assert np.count_nonzero(dense["x"]) > 2
    assert (summary["m"], summary["n"]) == (40, 12)


def test_the_table_says_loss_and_penalty(command, tmp_path):
    outcome = command("solve", save(tmp_path, A=A, b=B, l1=np.linspace(1, 2, 3)), "--loss", "huber", "--l2", "0.5")
    assert outcome.code == 0
    assert "3 huber + l1 + l2, 30 x 8, from p.npz" in outcome.out
    assert "l1 1 to 2, l2 0.5" in outcome.out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--loss", "hubber"], "loss is 'hubber'; did you mean 'huber'?"),
        (["--loss", "huber", "--kind", "logistic"], "kind is 'logistic' and loss is 'huber'"),
        (["--delta", "2"], "delta is given, and belongs to the loss huber"),
        (["--loss", "huber", "--level", "0.2"], "level is given, and belongs to the loss quantile"),
        (["--loss", "huber", "--delta", "-2"], "delta is -2"),
        (["--loss", "quantile", "--level", "2"], "level is 2"),
        (["--loss", "logistic"], "has no 'y'; logistic problems need A, y, lam"),
        (["--loss", "poisson"], "has no 'y'; poisson problems need A, y, lam"),
        (["--l1", "1", "--lam", "2"], "l1 and lam are both given"),
        (["--l1", "few"], "--l1 is 'few'"),
        (["--l2", "-1"], "l2 is -1"),
        (["--groups", "no.txt"], "no.txt does not exist; give a text file or .npy"),
        (["--groups", "bad.txt"], "bad.txt, line 2 has 'x', not a whole number"),
        (["--groups", "short.txt", "--lam", "1"], "groups name 3 coordinates; this problem has 8"),
        (["--groups", "gap.txt", "--lam", "1"], "group 1 is empty"),
        (["--groups", "good.txt"], "there is no lam, the weight of the groups"),
        (["--groups", "good.txt", "--lam", "1", "--l2", "1"], "groups do not go with l2"),
        (["--groups", "good.txt", "--lam", "1", "--nonnegative"], "groups do not go with bounds"),
    ],
)
def test_what_is_wrong_is_one_line_and_writes_nothing(refused, tmp_path, options, expected):
    (tmp_path / "bad.txt").write_text("0 1\n0 x\n")
    (tmp_path / "short.txt").write_text("0 0 1\n")
    (tmp_path / "gap.txt").write_text("0 0 0 0 2 2 2 2\n")
    (tmp_path / "good.txt").write_text("0 0 0 0 1 1 1 1\n")
    assert expected in refused("solve", save(tmp_path, A=A, b=B), *options)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"weigths": np.ones(30), "lam": 1.0}, "holds 'weigths', which is not read; did you mean 'weights'?"),
        ({"lambda": 1.0}, "holds 'lambda', which is not read; did you mean 'lam'?"),
        ({"L1": 1.0}, "did you mean 'l1'?"),
        ({"lam": 1.0, "l1": 1.0}, "l1 and lam are both there"),
        ({"lam": 1.0, "low": 1.0, "high": 0.0}, "low is 1 and high is 0"),
        ({"lam": 1.0, "weights": -np.ones(30)}, "weights is -1 somewhere"),
        ({"lam": 1.0, "offset": np.ones(29)}, "offset has shape (29,)"),
        ({"lam": 1.0, "groups": GROUPS + 0.5}, "groups holds what is no whole number"),
        ({"lam": 1.0, "group_weights": np.ones(3)}, "there are group_weights and no groups"),
        ({"lam": 1.0, "A_data": np.ones(3)}, "holds both A and A_data"),
        ({"l1": np.ones((2, 8))}, "l1 has shape (2, 8)"),
    ],
)
def test_wrong_content_is_one_line_and_writes_nothing(refused, tmp_path, content, expected):
    assert expected in refused("solve", save(tmp_path, A=A, b=B, **content))


def test_sparse_files_that_cannot_be_used(refused, tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(30, 8, 0.3, random_state=1, format="csr")
    np.save(tmp_path / "b.npy", B)
    sparse.save_npz(tmp_path / "A.npz", matrix)
    assert "give the right-hand side too: A.npz b.npy" in refused("solve", "A.npz", "--lam", "1")
    sparse.save_npz(tmp_path / "D.npz", matrix.todia())
    assert "in the format 'dia'; save A.tocsr()" in refused("solve", "D.npz", "b.npy", "--lam", "1")
    save(tmp_path, A=A, b=B)
    assert "must be a sparse A" in refused("solve", "p.npz", "b.npy", "--lam", "1")
    fields = {"A_data": matrix.data, "A_indices": matrix.indices, "A_indptr": matrix.indptr, "A_shape": (30, 8)}
    for changes, expected in (
        ({"A_indices": matrix.indices + 4}, "has an entry outside of its 8 columns"),
        ({"A_indptr": matrix.indptr[:-1]}, "has an indptr that does not fit"),
        ({"A_indptr": matrix.indptr[::-1]}, "has an indptr that does not fit"),
        ({"A_data": matrix.data[:-1]}, "entries at"),
        ({"A_data": matrix.data * np.nan}, "NaN or infinite"),
        ({"A_shape": (30, 8, 2)}, "declares the shape"),
        ({"A_shape": (10**12, 8)}, "declares the shape"),
    ):
        assert expected in refused("solve", save(tmp_path, **(fields | changes), b=B, lam=1.0))
