"""Reading problems: every format gives back what was saved, and everything else is one line."""

import io
import pickle
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

import sureprox as sp
from sureprox.sources.problem_files import Kind, map_npy, read_problem
from sureprox.sources.problem_files.numpy_files import read_npy, read_npz

scipy_io = pytest.importorskip("scipy.io")

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((12, 7)), RNG.standard_normal(12)
MANY_A, MANY_B = RNG.standard_normal((3, 12, 7)), RNG.standard_normal((3, 12))
LABELS = (RNG.standard_normal(12) > 0).astype(np.float64)


def refusal(*paths: Path, **options: object) -> str:
    with pytest.raises(sp.InputError) as error:
        read_problem(paths, **options)
    message = str(error.value)
    assert "\n" not in message
    return message


def same(problem: sp.Problem, expected: sp.Problem) -> None:
    mine, theirs = problem.tensors(), expected.tensors()
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


# --- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    path = tmp_path / "p.npz"
    save(path, A=A, b=B, lam=0.5, x0=np.ones(7), other=np.zeros(3))
    found = read_problem([path])
    same(found.problem, sp.lasso(A, B, 0.5))
    assert (found.kind, found.source) == (Kind.LASSO, "p.npz")
    assert torch.equal(found.x0, torch.ones(7, dtype=torch.float64))
    save(path, A=A, y=LABELS.astype(bool), lam=0.05)
    found = read_problem([str(path)])
    same(found.problem, sp.logistic(A, LABELS, 0.05))
    assert found.kind is Kind.LOGISTIC
    assert found.x0 is None


def test_many_problems(tmp_path):
    path = tmp_path / "p.npz"
    lam = np.array([0.1, 0.2, 0.3])
    np.savez(path, A=MANY_A, b=MANY_B, lam=lam)
    same(read_problem([path]).problem, sp.lasso(MANY_A, MANY_B, lam))
    np.savez(path, A=A, b=MANY_B, lam=[0.25])
    same(read_problem([path]).problem, sp.lasso(A, MANY_B, 0.25))


@pytest.mark.parametrize("compressed", [False, True])
def test_mat_as_scipy_writes_it(tmp_path, compressed):
    path = tmp_path / "p.mat"
    content = {"A": A, "b": B[:, None], "lam": 0.5, "x0": np.ones((7, 1)), "name": "text", "s": {"a": 1}, "c": [1, "x"]}
    scipy_io.savemat(path, content, do_compression=compressed)
    found = read_problem([path])
    same(found.problem, sp.lasso(A, B, 0.5))
    assert torch.equal(found.x0, torch.ones(7, dtype=torch.float64))
    scipy_io.savemat(path, {"A": MANY_A, "b": MANY_B, "lam": [[0.1, 0.2, 0.3]]}, do_compression=compressed)
    same(read_problem([path]).problem, sp.lasso(MANY_A, MANY_B, np.array([0.1, 0.2, 0.3])))
    scipy_io.savemat(path, {"A": A.astype(np.float32), "y": LABELS[:, None] > 0, "lam": 1}, do_compression=compressed)
    same(read_problem([path]).problem, sp.logistic(A.astype(np.float32), LABELS.astype(np.float32), 1.0))


def test_pair_of_npy(tmp_path):
    np.save(tmp_path / "A.npy", np.asfortranarray(A))
    np.save(tmp_path / "b.npy", B.astype(">f8"))
    np.save(tmp_path / "y.npy", LABELS.astype(int))
    same(read_problem([tmp_path / "A.npy", tmp_path / "b.npy"], lam=0.3).problem, sp.lasso(A, B, 0.3))
    found = read_problem([tmp_path / "A.npy", tmp_path / "y.npy"], lam=0.3, kind="logistic")
    same(found.problem, sp.logistic(A, LABELS, 0.3))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(tmp_path, delimiter):
    path = tmp_path / "t.csv"
    table = np.column_stack([A, B])
    np.savetxt(path, table, delimiter=delimiter, fmt="%.17g")
    same(read_problem([path], lam=0.3).problem, sp.lasso(A, B, 0.3))
    names = [f"x{j}" for j in range(7)] + ["price"]
    np.savetxt(path, table, delimiter=delimiter, fmt="%.17g", header=delimiter.join(names), comments="")
    same(read_problem([path], lam=0.3).problem, sp.lasso(A, B, 0.3))
    moved = np.delete(table, 2, axis=1)
    for target in ("x2", "3"):
        same(read_problem([path], lam=0.3, target=target).problem, sp.lasso(moved, table[:, 2], 0.3))
    line = refusal(path, lam=0.3, target="x9")
    assert "no single column 'x9'" in line
    assert "price" in line


def test_lam_and_its_ratio(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, A=A, b=MANY_B, lam=0.5)
    same(read_problem([path], lam=0.1).problem, sp.lasso(A, MANY_B, 0.1))
    largest = np.abs(MANY_B @ A).max(1)
    torch.testing.assert_close(read_problem([path], lam_ratio=0.1).problem.r.lam, torch.tensor(0.1 * largest))
    np.savez(path, A=A, b=B)
    assert "there is no lam; give --lam" in refusal(path)
    path_of_lams = read_problem([path], lam_ratio=[1.0, 0.5]).problem
    assert path_of_lams.batch == 2
    torch.testing.assert_close(path_of_lams.r.lam, torch.tensor([1.0, 0.5]) * np.abs(B @ A).max(), check_dtype=False)
    np.savez(path, A=A, y=LABELS)
    largest = np.abs((0.5 - LABELS) @ A).max() / 12
    torch.testing.assert_close(float(read_problem([path], lam_ratio=0.2).problem.r.lam), 0.2 * largest)
    assert "both given" in refusal(path, lam=1.0, lam_ratio=0.1)


def test_dtypes(tmp_path):
    path = tmp_path / "p.npz"
    for stored, expected in (
        ("f4", torch.float32),
        ("f8", torch.float64),
        ("f2", torch.float32),
        ("i2", torch.float64),
    ):
        np.savez(path, A=(8 * A).astype(stored), b=B, lam=1)
        assert read_problem([path]).problem.dtype == expected
        assert read_problem([path], dtype=torch.float32).problem.dtype == torch.float32


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"X": A, "b": B, "lam": 1}, "p.npz has no 'A' (it holds X, b, lam)"),
        ({"A": A, "lam": 1}, "p.npz has no 'b'"),
        ({"A": A, "b": B, "y": LABELS, "lam": 1}, "holds both b and y"),
        ({"A": A, "b": B[:5], "lam": 1}, "b has shape (5,); A of shape (12, 7) needs"),
        ({"A": B, "b": B, "lam": 1}, "A has shape (12,); it must be"),
        ({"A": A, "b": B, "lam": -1}, "lam is -1"),
        ({"A": A, "b": B, "lam": np.ones(3), "x0": np.ones((2, 7))}, "x0 has shape (2, 7)"),
        ({"A": A * np.nan, "b": B, "lam": 1}, "A has 84 entries that are NaN or infinite"),
        ({"A": A, "b": B, "lam": np.nan}, "lam has 1 entries that are NaN"),
        ({"A": A + 1j, "b": B, "lam": 1}, "A in p.npz is complex"),
        ({"A": A.astype(str), "b": B, "lam": 1}, "A in p.npz has dtype"),
        ({"A": A.astype(object), "b": B, "lam": 1}, "holds Python objects, a pickle"),
        ({"A": A[:0], "b": B, "lam": 1}, "it is empty"),
        ({"A": A, "y": B, "lam": 1}, "labels must be 0 or 1"),
    ],
)
def test_npz_that_cannot_be_used(tmp_path, content, expected):
    path = tmp_path / "p.npz"
    np.savez(path, **content)
    assert expected in refusal(path)


def test_files_that_cannot_be_used(tmp_path):
    assert "does not exist" in refusal(tmp_path / "no.npz")
    assert "is a directory" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path / ("x" * 5000 + ".npz"))
    (tmp_path / "p.txt").write_text("1,2\n")
    assert "cannot read problems from p.txt" in refusal(tmp_path / "p.txt")
    assert "cannot read problems from no file" in refusal()
    for name, content in (
        ("a.npz", b"not a zip"),
        ("a.mat", b"x" * 200),
        ("e.npz", b""),
        ("e.mat", b""),
        ("e.csv", b""),
    ):
        (tmp_path / name).write_bytes(content)
        assert name in refusal(tmp_path / name, lam=1)
    (tmp_path / "h.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n")
    assert "-v7" in refusal(tmp_path / "h.mat")
    for name in ("p.npz", "p.npy"):
        (tmp_path / name).write_bytes(pickle.dumps({"A": 1}))
    assert "is a pickle" in refusal(tmp_path / "p.npz")
    assert "is a pickle" in refusal(tmp_path / "p.npy", tmp_path / "p.npy")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1,2\n3,x\n", "line 2, column 2 is 'x'"),
        ("1,2\n3\n", "line 2 has 1 fields; the first row has 2"),
        ("1,nan\n", "line 1, column 2 is 'nan'"),
        ("1,2\n1_0,2\n", "line 2, column 1 is '1_0'"),
        ("a,b\n", "no rows"),
        ("1\n2\n", "no comma"),
        ('1,2\n"3,4\n', "damaged"),
    ],
)
def test_csv_that_cannot_be_used(tmp_path, content, expected):
    (tmp_path / "t.csv").write_text(content)
    assert expected in refusal(tmp_path / "t.csv", lam=1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"A": A + 1j, "b": B, "lam": 1}, "is complex"),
        ({"A": "text", "b": B, "lam": 1}, "A in p.mat is text"),
        ({"A": {"a": 1}, "b": B, "lam": 1}, "A in p.mat is a struct"),
        ({"X": A, "b": B, "lam": 1}, "has no 'A' (it holds X, b, lam)"),
    ],
)
def test_mat_that_cannot_be_used(tmp_path, content, expected):
    scipy_io.savemat(tmp_path / "p.mat", content)
    assert expected in refusal(tmp_path / "p.mat")


def test_sparse_mat_is_refused(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    scipy_io.savemat(tmp_path / "p.mat", {"A": sparse.eye(3).tocsc(), "b": np.ones(3), "lam": 1})
    assert "A in p.mat is sparse; save a full array" in refusal(tmp_path / "p.mat")


# --- files that lie --------------------------------------------------------------------------------------------------


def npy(shape: str, data: bytes = b"", descr: str = "'<f8'") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def peak_of_refusal(*paths: Path) -> tuple[str, int]:
    tracemalloc.start()
    try:
        line = refusal(*paths)
        return line, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "content",
    [
        npy("(100000, 1000000)"),
        npy("(1000000000000000000000, 7)", b"x" * 80),
        npy("(-1, 7)", b"x" * 80),
        npy("(True, 1)", b"x" * 8),
        npy("(0, 99999999999999)"),
        npy("(2, 2)", b"x" * 31),
        npy("(2, 2)", b"x" * 33),
        npy("(2, 2)", b"x" * 8, "'(1000000,1000000)f8'"),
        npy("(2, 2)", b"x" * 32, "'O'"),
        npy("(2, 2)", b"x" * 32, "[('a', '<f8')]"),
        npy("(" * 900 + ")" * 900),
        b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\xff" + b"{" * 100,
        b"\x93NUMPY\x09\x00" + b"\xff" * 100,
        b"\x93NUMPY",
    ],
)
def test_absurd_npy_headers_take_no_memory(tmp_path, content):
    (tmp_path / "A.npy").write_bytes(content)
    (tmp_path / "b.npy").write_bytes(npy("(2,)", b"\0" * 16))
    _, peak = peak_of_refusal(tmp_path / "A.npy", tmp_path / "b.npy")
    assert peak < 2e7
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("A.npy", content)
    _, peak = peak_of_refusal(tmp_path / "p.npz")
    assert peak < 2e7


@pytest.mark.parametrize(
    ("shape", "room", "line"),
    [
        ("(100000, 1000000)", 32, "declares shape (100000, 1000000), that is 800,000,000,000 bytes, but has 32"),
        ("(2, 2)", 31, "declares shape (2, 2), that is 32 bytes, but has 31"),
        ("(2, 2)", 40, "declares shape (2, 2), that is 32 bytes, but has 40"),
        ("(-1, 2)", 32, "declares the shape (-1, 2), which is not that of an array used here"),
        ("(True, 4)", 32, "declares the shape (True, 4)"),
        ("(1, 1, 1, 2, 2)", 32, "declares the shape (1, 1, 1, 2, 2)"),
        ("(0, 99999999999999)", 0, "it is empty"),
    ],
)
def test_the_declared_shape_is_what_there_are_bytes_for(tmp_path, shape, room, line):
    """Said before numpy is asked: it would take -1 for whatever fits, and map or reserve what is not there."""
    (tmp_path / "A.npy").write_bytes(npy(shape, bytes(room)))
    (tmp_path / "b.npy").write_bytes(npy("(2,)", bytes(16)))
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("A.npy", npy(shape, bytes(room)))
    for label, read in (
        ("A.npy", lambda: read_npy(tmp_path / "A.npy")),
        ("A.npy", lambda: map_npy(tmp_path / "A.npy")),
        ("A in p.npz", lambda: read_npz(tmp_path / "p.npz", ["A"])),
        ("A.npy", lambda: read_problem([tmp_path / "A.npy", tmp_path / "b.npy"], lam=1.0)),
        ("A.npy", lambda: sp.solve_many([tmp_path / "A.npy", tmp_path / "b.npy"], lam=1.0)),
    ):
        with pytest.raises(sp.InputError) as caught:
            read()
        assert str(caught.value).startswith(label)
        assert line in str(caught.value)


@pytest.mark.parametrize("compressed", [True, False])
def test_the_declared_shape_of_a_mat_is_what_there_are_bytes_for(tmp_path, compressed):
    scipy_io.savemat(tmp_path / "p.mat", {"A": A, "b": B, "lam": 1.0})
    data = (tmp_path / "p.mat").read_bytes()
    declared = struct.pack("<IIii", 5, 8, 12, 7)  # the dimensions of A
    assert data.count(declared) == 1
    data = data.replace(declared, struct.pack("<IIii", 5, 8, 2**31 - 1, 7))
    if compressed:
        size = int.from_bytes(data[132:136], "little")
        packed = zlib.compress(data[128 : 136 + size])
        data = data[:128] + struct.pack("<II", 15, len(packed)) + packed
    (tmp_path / "p.mat").write_bytes(data)
    line, peak = peak_of_refusal(tmp_path / "p.mat")
    assert "A in p.mat declares shape (2147483647, 7), that is 120,259,084,232 bytes, but has 672" in line
    assert peak < 2e7


def test_mapped_arrays_are_those_that_were_saved(tmp_path):
    for saved in (A, np.asfortranarray(A), A.astype(">f4"), (8 * A).astype(np.int16), MANY_A):
        np.save(tmp_path / "A.npy", saved)
        np.testing.assert_array_equal(map_npy(tmp_path / "A.npy"), saved)
    for saved in (A + 1j, A.astype(str)):
        np.save(tmp_path / "A.npy", saved)
        with pytest.raises(sp.InputError, match=r"A\.npy (is complex|has dtype)"):
            map_npy(tmp_path / "A.npy")


def test_zip_bombs_take_no_memory(tmp_path):
    """1 GiB of zeros in 5 MB, honestly declared, and a member that declares more than it has."""
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("A.npy", "w") as out,
    ):
        out.write(npy("(131072, 1024)"))
        for _ in range(64):
            out.write(bytes(2**24))
    line, peak = peak_of_refusal(path)
    assert "looks like a zip bomb" in line
    assert peak < 2e7
    buffer = io.BytesIO()
    np.savez(buffer, A=A, b=B, lam=1)
    data = bytearray(buffer.getvalue())
    at = data.rindex(b"PK\x01\x02", 0, data.index(b"b.npy", data.index(b"PK\x01\x02")))  # the first central entry
    data[at + 24 : at + 28] = struct.pack("<I", 2**31)
    path.write_bytes(data)
    _, peak = peak_of_refusal(path)
    assert peak < 2e7


def test_bomb_in_mat_takes_no_memory(tmp_path):
    packer = zlib.compressobj(1)
    size = 2**30
    heading = struct.pack("<IIIIIIIIiiIIII", 14, size, 6, 8, 6, 0, 5, 8, 2**14, 2**13, 0x10001, 0x41, 9, size)
    packed = [packer.compress(heading), *(packer.compress(bytes(2**24)) for _ in range(64)), packer.flush()]
    content = b"".join(packed)
    header = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    (tmp_path / "p.mat").write_bytes(header + struct.pack("<II", 15, len(content)) + content)
    line, peak = peak_of_refusal(tmp_path / "p.mat")
    assert "looks like a zip bomb" in line
    assert peak < 2e7


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes changed, cut out, put in twice, or cut off."""
    made = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, other = (int(i) for i in rng.integers(0, len(made), 2))
        match int(rng.integers(0, 5)):
            case 0:
                made[at] = int(rng.integers(0, 256))
            case 1:
                made[at] ^= 1 << int(rng.integers(0, 8))
            case 2:
                del made[at : at + int(rng.integers(1, 16))]
            case 3:
                made[at:at] = made[other : other + 16]
            case 4:
                del made[max(at, 1) :]
        made = made or bytearray(b"0")
    return bytes(made)


@pytest.mark.parametrize("format", ["npz", "npz-compressed", "npy", "mat", "mat-compressed", "csv"])
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path, format):
    """Never another exception, and never much memory."""
    suffix, path = format.partition("-")[0], tmp_path / f"p.{format.partition('-')[0]}"
    paths = [path]
    match suffix:
        case "npz":
            (np.savez_compressed if "-" in format else np.savez)(path, A=A, b=B, lam=1.0)
        case "npy":
            np.save(path, A)
            np.save(tmp_path / "b.npy", B)
            paths.append(tmp_path / "b.npy")
        case "mat":
            scipy_io.savemat(path, {"A": A, "b": B, "lam": 1.0}, do_compression="-" in format)
        case "csv":
            np.savetxt(path, np.column_stack([A, B]), delimiter=",", header="a,b,c,d,e,f,g,h", comments="")
    options = {} if suffix in ("npz", "mat") else {"lam": 1.0}
    original, rng = path.read_bytes(), np.random.default_rng(1)
    refusals = accepted = 0
    tracemalloc.start()
    for _ in range(250):
        path.write_bytes(damaged(original, rng))
        try:
            found = read_problem(paths, **options)
        except sp.InputError as error:
            refusals += "\n" not in str(error)
        else:
            accepted += all(bool(torch.isfinite(tensor).all()) for tensor in found.problem.tensors())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refusals > 50
    assert refusals + accepted == 250
    assert peak < 2e7
