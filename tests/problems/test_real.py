"""Real data: what the problems are made of, that damaged files are refused, and F* against scikit-learn."""

import hashlib
import io
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import sureprox as sp
from helpers import F64, normal, refused
from sureprox import DataError
from sureprox.sources import RealData, ionosphere, patches, real, spambase
from sureprox.sources.photographs import photograph_patches, prepared
from sureprox.sources.tables import Table, parse, standardised

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SMALL = Table("small.data", rows=3, features=2, labels={"b": 0.0, "g": 1.0})


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("SUREPROX_DATA", raising=False)
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def files(monkeypatch) -> Path:
    """The directory with the three files, named by SUREPROX_DATA."""
    if not DATA.is_dir():
        pytest.skip(f"no local data: {DATA} is not there (the repository was checked out alone)")
    monkeypatch.setenv("SUREPROX_DATA", str(DATA))
    return DATA


@pytest.fixture
def no_network(monkeypatch):
    """An address at which nobody listens, in place of the repository."""
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setattr(real, "UCI", f"http://127.0.0.1:{unused.getsockname()[1]}")
        yield


@pytest.mark.parametrize(
    ("load", "file", "shape", "positive"),
    [(ionosphere, "ionosphere.data", (351, 34), 225), (spambase, "spambase.data", (4601, 57), 1813)],
    ids=["ionosphere", "spambase"],
)
def test_classification_against_numpy_and_scikit_learn(files, load, file, shape, positive):
    found = load()
    assert isinstance(found, RealData)
    assert found.name == file.removesuffix(".data")
    assert "local copy" in found.source
    A, y = found.problem.f.A, found.problem.f.y
    assert (found.problem.batch, A.shape, A.dtype) == (1, shape, F64)
    assert y.sum() == positive
    assert (found.problem.r.lam.tolist(), found.problem.f.curvature) == ([0.1], 1.0)
    raw = np.genfromtxt(files / file, delimiter=",", dtype=str)
    features = raw[:, :-1].astype(float)
    np.testing.assert_allclose(A.numpy(), StandardScaler().fit_transform(features), rtol=1e-9, atol=1e-11)
    assert y[0].tolist() == np.isin(raw[:, -1], ["g", "1"]).astype(float).tolist()
    varies = np.ptp(features, axis=0) > 0
    np.testing.assert_allclose(A.mean(0), 0, atol=1e-13)
    np.testing.assert_allclose(A.square().mean(0).sqrt(), varies.astype(float), atol=1e-13)
    assert (A[:, ~varies] == 0).all()
    assert varies.sum() == shape[1] - (load is ionosphere)  # the second column of Ionosphere is constant


@pytest.mark.parametrize("load", [ionosphere, spambase])
def test_optimal_value_against_scikit_learn(files, load):
    problem = load().problem
    A, y = problem.f.A.numpy(), problem.f.y[0].numpy()
    options = {"l1_ratio": 1.0, "solver": "liblinear", "fit_intercept": False, "tol": 1e-10, "max_iter": 10000}
    theirs = LogisticRegression(C=1 / (0.1 * len(y)), **options).fit(A, y).coef_[0]
    margin = A @ theirs
    value = np.mean(np.logaddexp(0, margin) - y * margin) + 0.1 * np.abs(theirs).sum()
    ours = sp.reference(problem, 1e-10)
    assert float(ours.objective) == pytest.approx(value, abs=1e-6)
    assert float(ours.objective) <= value + 1e-9  # F* is a minimum


def test_bsds500_patches(files):
    found = patches()
    problem = found.problem
    assert found.source.startswith("BSDS500, local copy")
    assert (problem.batch, problem.n, problem.dtype) == (1000, 128, F64)
    assert problem.f.A.shape == (64, 128)
    assert (problem.f.A.norm(dim=0) - 1).abs().max() <= 1e-12
    with np.load(files / real.BSDS500.name) as arrays:
        assert torch.equal(problem.f.b, torch.from_numpy(arrays["patches"]).double())
    assert problem.r.lam.unique().tolist() == [0.5]
    zero = (problem.f.b == 0).all(1)
    assert zero.sum() == 6
    best = sp.reference(problem, 1e-9)
    assert (best.x[zero] == 0).all()
    assert (best.objective[zero] == 0).all()
    assert (best.objective[~zero] > 0).all()
    # the dictionary is worth its name: sparse solutions cost less than with random atoms
    random = normal(64, 128)
    unlearned = sp.lasso(random / random.norm(dim=0), problem.f.b, 0.5)
    assert best.objective.mean() < 0.9 * sp.reference(unlearned, 1e-6).objective.mean()


def test_patches_in_the_dictionary_of_the_released_recipe(files):
    ours, released = patches(), patches("released")
    assert torch.equal(ours.problem.f.b, released.problem.f.b)
    assert (released.problem.f.A.norm(dim=0) - 1).abs().max() <= 1e-12
    assert 13 < float(released.problem.lipschitz()[0]) < 15 < 24 < float(ours.problem.lipschitz()[0]) < 25
    assert released.source == f"{ours.source}, dictionary of the released recipe"
    refused(lambda: patches("theirs"), "dictionary is 'theirs'", "ours, released")


def test_patches_of_photographs_where_bsds500_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREPROX_DATA", str(tmp_path))  # set, but without the file
    found = patches()
    assert "photographs that ship inside scikit-learn" in found.source
    b = found.problem.f.b
    assert b.shape == (1000, 64)
    assert b.sum(1).abs().max() < 1e-12
    width = b.amax(1) - b.amin(1)
    assert width.max() < 1  # 1e-3 below, relative to the range
    assert width.median() > 0.9
    assert len(b.unique(dim=0)) == 1000
    assert torch.equal(patches().problem.f.b, b)


def test_photograph_patches_are_pieces_of_the_photographs():
    """Every patch occurs in the grey photograph it was drawn from, up to its scaling."""
    from sklearn.datasets import load_sample_images

    found = photograph_patches(10)
    for image, share in zip(load_sample_images().images, (found[:5], found[5:]), strict=True):
        grey = image @ np.array([0.2125, 0.7154, 0.0721]) / 255
        windows = np.lib.stride_tricks.sliding_window_view(grey, (8, 8)).reshape(-1, 64)
        unit = windows - windows.mean(1, keepdims=True)
        unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
        assert ((unit @ share.numpy().T).max(0) / np.linalg.norm(share, axis=1) > 1 - 1e-12).all()


def test_prepared_patches():
    flat, ramp = torch.full((64,), 0.3, dtype=F64), torch.linspace(0, 0.5, 64, dtype=F64)
    found = prepared(torch.stack([flat, ramp]))
    assert (found[0] == 0).all()
    torch.testing.assert_close(found[1], (ramp - ramp.mean()) / 0.501, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("missing", ["sklearn.datasets", "PIL"])
def test_missing_packages_for_the_photographs_are_one_line(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    refused(lambda: photograph_patches(10), "scikit-learn", "pip install scikit-learn pillow", error=DataError)


def test_the_dictionary_is_learned_once(tmp_path, monkeypatch):
    signals = normal(20, 6)
    calls = []

    def counted(*args, **options):
        calls.append(args)
        return real_ksvd(*args, **options)

    real_ksvd = real.ksvd
    monkeypatch.setattr(real, "ksvd", counted)
    first = real.learned_dictionary(signals)
    assert torch.equal(real.learned_dictionary(signals), first)
    assert len(calls) == 1
    (file,) = (tmp_path / "cache").iterdir()
    real.learned_dictionary(signals + 1e-9)  # other signals, another dictionary
    assert len(calls) == 2
    whole = file.read_bytes()
    shorter, doubled = io.BytesIO(), io.BytesIO()
    np.save(shorter, first[:, 1:].numpy())
    np.save(doubled, 2 * first.numpy())
    for damaged in (b"", whole[:100], whole[:-8], b"\x93NUMPY", shorter.getvalue(), doubled.getvalue()):
        file.write_bytes(damaged)
        assert torch.equal(real.learned_dictionary(signals), first)  # the same bits, learned anew
        assert file.read_bytes() == whole
    assert len(calls) == 8


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "file"))
    first = real.learned_dictionary(normal(20, 6))
    assert torch.equal(real.learned_dictionary(normal(20, 6)), first)


@pytest.mark.parametrize("load", [ionosphere, spambase])
def test_neither_local_copy_nor_network_is_one_line(load, no_network):
    refused(load, "cannot download", f"{load.__name__}.data", "refused", "set SUREPROX_DATA to it", error=DataError)


@pytest.mark.parametrize(("load", "file"), [(ionosphere, real.IONOSPHERE), (spambase, real.SPAMBASE)])
def test_a_cached_download_needs_no_network(load, file, files, no_network, tmp_path, monkeypatch):
    expected = load().problem.f.A
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / file.name).write_bytes((files / file.name).read_bytes())
    monkeypatch.delenv("SUREPROX_DATA")
    found = load()
    assert f"downloaded from {real.UCI}" in found.source
    assert torch.equal(found.problem.f.A, expected)


@pytest.mark.parametrize(
    ("load", "file"), [(ionosphere, real.IONOSPHERE), (spambase, real.SPAMBASE), (patches, real.BSDS500)]
)
def test_a_local_copy_with_the_wrong_hash_is_refused(load, file, tmp_path, monkeypatch):
    (tmp_path / file.name).write_bytes(b"1,2,g\n")
    monkeypatch.setenv("SUREPROX_DATA", str(tmp_path))
    got = hashlib.sha256(b"1,2,g\n").hexdigest()
    refused(load, f"{file.name} has sha256 {got}, expected {file.sha256}", error=DataError)


def test_the_documented_hashes_are_those_that_are_checked():
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    for file in (real.IONOSPHERE, real.SPAMBASE, real.BSDS500):
        assert f"| `{file.name}` | `{file.sha256}` |" in text


def test_a_table_is_read():
    A, y = parse(SMALL, b"1,-2.5,g\r\n0,1e3,b\r\n.5,7,g\r\n")
    assert A.tolist() == [[1.0, -2.5], [0.0, 1000.0], [0.5, 7.0]]
    assert y.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["small.data has 0 rows; expected 3"]),
        (b"1,2,g\n3,4,b\n", ["has 2 rows; expected 3"]),
        (b"1,2,g\n3,4,b\n5,6,g\n7,8,b\n", ["has 4 rows"]),
        (b"1,2,g\n3,b\n5,6,g\n", ["row 2 has 2 fields; expected 3"]),
        (b"1,2,g\n3,4,5,b\n5,6,g\n", ["row 2 has 4 fields"]),
        (b"1,2,g\n\n5,6,g\n", ["row 2 has 1 fields"]),
        (b"1,2,g\n3,4,b\n5,x6,g\n", ["row 3, field 2 is 'x6', not a number"]),
        (b"1,2,g\n3,,b\n5,6,g\n", ["row 2, field 2 is '', not a number"]),
        (b"1,2,g\nnan,4,b\n5,6,g\n", ["row 2, field 1 is 'nan'"]),
        (b"1,2,g\n3,-inf,b\n5,6,g\n", ["row 2, field 2 is '-inf'"]),
        (b"1,2,g\n3,4,c\n5,6,g\n", ["row 2 has label 'c'; expected b or g"]),
        (b"1,2,g\n3,\xff\xfe,b\n5,6,g\n", ["row 2, field 2", "not a number"]),
    ],
)
def test_a_damaged_table_is_refused(content, parts):
    refused(lambda: parse(SMALL, content), "small.data", "damaged", *parts, error=DataError)


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is damaged"),
        (b"no archive", "is damaged"),
        (npz(patches=np.zeros((1000, 64)))[:-20], "is damaged"),
        (npz(other=np.zeros((1000, 64))), "is damaged"),
        (npz(patches=np.array([{}], dtype=object)), "is damaged"),
        (npz(patches=np.zeros((999, 64))), "(999, 64)"),
        (npz(patches=np.zeros((1000, 64), dtype=int)), "int64"),
        (npz(patches=np.full((1000, 64), np.nan)), "expected (1000, 64) finite floats"),
    ],
    ids=["empty", "no-archive", "cut", "key", "pickle", "shape", "integers", "nan"],
)
def test_damaged_patches_are_refused(content, part):
    refused(lambda: real._patches_of(content), real.BSDS500.name, part, error=DataError)


def test_a_constant_column_becomes_zero_without_a_division_by_zero():
    A = torch.tensor([[0.1, 1.0, 1e-300], [0.1, 2.0, 3e-300]] * 7, dtype=F64)[:7]
    assert 0 < (A[:, 0] - A.mean(0)[0]).abs().max() < 1e-15  # the mean of seven times 0.1 is not 0.1
    found = standardised(A)
    assert (found[:, 0] == 0).all()
    assert found[:, 1:].mean(0).abs().max() < 1e-15
    assert found[:, 1:].square().mean(0).tolist() == pytest.approx([1, 1])
