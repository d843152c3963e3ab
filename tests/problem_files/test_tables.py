"""Tables: which columns are features, targets and an index; intercept and scaling against scikit-learn."""

import csv
import gzip
import io
import itertools

import numpy as np
import pytest
import torch
from packaging.version import Version
from sklearn import __version__ as version
from sklearn import linear_model
from sklearn.preprocessing import StandardScaler

import sureprox as sp
from helpers import refused
from sureprox.sources.problem_files import read_problem

RECENT = Version(version) >= Version("1.8")  # l1_ratio alone names the penalty
RNG = np.random.default_rng(0)
M, NAMES = 60, ["sqm", "rooms", "age", "distance"]
A = RNG.standard_normal((M, 4)) * [1, 10, 0.1, 3] + 5
PRICE = A @ [1.0, 0.2, 0.0, -2.0] + 3 + 0.1 * RNG.standard_normal(M)
RENT = A @ [0.0, 0.1, 3.0, 0.0] - 1 + 0.1 * RNG.standard_normal(M)
SOLD = (RNG.random(M) < 1 / (1 + np.exp(PRICE.mean() - PRICE))).astype(float)


@pytest.fixture
def table(tmp_path):
    """table("t.csv", first=("id", values)): features, price, rent and sold, behind a first column of one's own."""

    def write(name="t.csv", first=None, columns=(PRICE, RENT, SOLD), names=("price", "rent", "sold"), header=True):
        rows = [list(map(repr, map(float, row))) for row in np.column_stack([A, *columns])]
        heading = [*NAMES, *names]
        if first is not None:
            heading, rows = [first[0], *heading], [[str(one), *row] for one, row in zip(first[1], rows, strict=True)]
        path = tmp_path / name
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if ".tsv" in name else ",")
        writer.writerows([heading, *rows] if header else rows)
        content = text.getvalue().encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def read(path, target="price", **options):
    return read_problem([path], target=target, **{"lam": 2.0, **options})


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "T.TSV.GZ"])
def test_text_in_every_dress(table, name):
    path = table(name) if name == name.lower() else table("t.tsv.gz").rename(table("t.tsv.gz").with_name(name))
    found = read(path, "price,rent")
    assert found.columns.features == (*NAMES, "sold")
    assert found.columns.targets == ("price", "rent")
    assert torch.equal(found.problem.f.A, torch.from_numpy(np.column_stack([A, SOLD])))
    assert torch.equal(found.problem.f.b, torch.from_numpy(np.stack([PRICE, RENT])))


def test_parquet_as_pandas_writes_it(tmp_path):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pd.DataFrame(np.column_stack([A, PRICE]), columns=[*NAMES, "price"])
    frame["age"] = frame["age"] > 5
    frame.to_parquet(tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet")
    assert (found.columns.features, found.columns.index) == (tuple(NAMES), None)
    assert torch.equal(found.problem.f.A[:, 2], torch.from_numpy((A[:, 2] > 5).astype(float)))
    frame.index = [f"house {i}" for i in range(M)]
    frame.to_parquet(tmp_path / "named.parquet")
    assert read(tmp_path / "named.parquet").columns.features == tuple(NAMES)
    frame["city"] = "Bern"
    frame.to_parquet(tmp_path / "text.parquet")
    refused(lambda: read(tmp_path / "text.parquet"), "column 'city' holds", "encode text as numbers")
    frame.drop(columns="city").where(frame["sqm"] > 5).to_parquet(tmp_path / "gaps.parquet")
    refused(lambda: read(tmp_path / "gaps.parquet"), "column 'sqm' has missing")


def test_parquet_without_pyarrow_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    refused(lambda: read(tmp_path / "t.parquet"), "needs pyarrow", "pip install pyarrow")


@pytest.mark.parametrize(
    ("heading", "values"),
    [("", range(M)), ("Unnamed: 0", range(M)), ("id", range(7, 7 + M)), ("house", [f"no {i}" for i in range(M)])],
)
def test_an_index_is_noticed_and_left_out(table, heading, values):
    found = read(table(first=(heading, values)))
    assert found.columns.index == (heading or "1")
    assert found.columns.features == (*NAMES, "rent", "sold")
    assert found.problem.n == 6


def test_what_only_looks_like_an_index_stays(table):
    assert read(table(first=("id", A[:, 0]))).columns.features[0] == "id"  # measured numbers
    assert read(table(first=("id", [3] * M))).columns.features[0] == "id"
    assert read(table(first=("year", range(M)))).columns.features[0] == "year"
    numbered = table(first=("id", range(M)))
    assert read(numbered, index="none").columns.features[0] == "id"
    assert read(numbered, index="rent").columns.features == ("id", *NAMES, "sold")
    refused(lambda: read(numbered, "id"), "column 'id' is the index")
    assert read(table(header=False), "5").columns.features == ("1", "2", "3", "4", "6", "7")
    named = table(first=("house", [f"no {i}" for i in range(M)]))
    refused(lambda: read(named, index="none"), "first column holds text")
    named.write_text(named.read_text().replace("no 9", "9"))
    refused(lambda: read(named.with_name("absent.csv")), "does not exist")
    assert read(named).columns.index == "house"


def test_targets_that_are_not_there(table):
    refused(lambda: read(table(), "price,prise"), "no single column 'prise'", "sqm, rooms")
    refused(lambda: read(table(), ",".join([*NAMES, "price", "rent", "sold"])), "no column left for the features")
    path = table(names=("price, net", "rent", "sold"))
    assert read(path, "price, net").columns.targets == ("price, net",)


def test_intercept_and_scaling_are_those_of_scikit_learn(table):
    """alpha of scikit-learn is lam / rows; both targets with both lam."""
    lams = (0.5, 2.0, 8.0)
    loaded = read(
        table(columns=(PRICE, RENT), names=("price", "rent")), "price,rent", lam=lams, intercept=True, standardize=True
    )
    assert loaded.problem.grid == (2, 3)
    solution = sp.solve(loaded.problem, tol=1e-12)
    x, level = loaded.columns.restored(solution.x.numpy())
    scaler = StandardScaler().fit(A)
    for i, (y, lam) in enumerate(itertools.product((PRICE, RENT), lams)):
        theirs = linear_model.Lasso(lam / M, tol=1e-12, max_iter=100_000).fit(scaler.transform(A), y)
        np.testing.assert_allclose(x[i], theirs.coef_ / scaler.scale_, atol=1e-6)
        np.testing.assert_allclose(level[i], theirs.intercept_ - x[i] @ scaler.mean_, atol=1e-5)


@pytest.mark.parametrize("options", [{"lam": 0.02}, {"lam": 0.02, "l2": 0.1}])
def test_an_intercept_of_other_losses_is_free(table, options):
    path = table(columns=(SOLD,), names=("sold",))
    loaded = read(path, "sold", loss="logistic", intercept=True, standardize=True, **options)
    solution = sp.solve(loaded.problem, tol=1e-10)
    x, level = loaded.columns.restored(solution.x.numpy())
    scaler, l2 = StandardScaler().fit(A), options.get("l2", 0.0)
    lam = options["lam"] + l2
    mixed = {"l1_ratio": options["lam"] / lam} | ({} if RECENT else {"penalty": "elasticnet"})
    model = linear_model.LogisticRegression(C=1 / (M * lam), **mixed, solver="saga", tol=1e-12, max_iter=100_000)
    model.fit(scaler.transform(A), SOLD)
    np.testing.assert_allclose(x[0], model.coef_[0] / scaler.scale_, atol=1e-5)
    np.testing.assert_allclose(level[0], model.intercept_[0] - x[0] @ scaler.mean_, atol=1e-4)


@pytest.mark.parametrize("loss", ["squares", "logistic", "poisson", "huber"])
def test_a_share_of_one_leaves_the_intercept_alone(table, loss):
    """lam_ratio is measured where all but the intercept is zero: at 1 it stays there, just below it does not."""
    path = table(columns=(SOLD,), names=("sold",))
    zeros = []
    for ratio in (1.0, 0.99):
        loaded = read(path, "sold", loss=loss, intercept=True, lam=None, lam_ratio=ratio)
        zeros.append((loaded.columns.restored(sp.solve(loaded.problem, tol=1e-10).x.numpy())[0] == 0).all())
    assert zeros == [True, False]


def test_bounds_and_groups_leave_the_intercept_free(table):
    path = table(columns=(SOLD - 3,), names=("shifted",))
    found = read(path, "shifted", loss="huber", nonnegative=True, lam=0.1, intercept=True)
    x, level = found.columns.restored(sp.solve(found.problem).x.numpy())
    assert (x >= 0).all()
    assert level[0] < -1
    grouped = {"groups": np.array([0, 0, 1, 1]), "intercept": True}
    assert read(path, "shifted", **grouped).problem.n == 4
    refused(lambda: read(path, "shifted", loss="huber", **grouped), "groups for least squares alone")
    constant = table(columns=(np.ones(M),), names=("one",))
    refused(
        lambda: read(constant, "one", loss="logistic", lam=None, lam_ratio=0.5, intercept=True), "labels of one class"
    )
    refused(lambda: read(constant, "one", loss="softmax", intercept=True), "does not go with softmax")


def test_options_of_tables_are_refused_elsewhere(tmp_path):
    np.savez(tmp_path / "p.npz", A=A, b=PRICE)
    refused(lambda: read(tmp_path / "p.npz", None, intercept=True), "--intercept goes with a table")
    refused(lambda: read(tmp_path / "p.npz", None, index="none"), "--index goes with a table")
    refused(lambda: read(tmp_path / "p.npz", "price"), "--target goes with a table")


def test_a_packed_bomb_is_refused(tmp_path, monkeypatch):
    from sureprox.sources.problem_files import csv_files, limits

    for module in (csv_files, limits):
        monkeypatch.setattr(module, "AT_ONCE", 1000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 100_000))
    refused(lambda: read(tmp_path / "t.csv.gz", "1"), "looks like a zip bomb")
