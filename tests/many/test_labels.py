"""A shard is taken over only if its problems are the same, number for number; what was changed is one line."""

import functools
import json

import numpy as np
import pytest
import torch
from cases import LAM, RESTARTED, M, N, problems

import sureprox as sp
from sureprox.many.labels import function_label
from sureprox.many.shards import Shards

OTHER = "shard 0 in .* is of other problems .*give the same source, or another directory"


def many(source, out, **options):
    return sp.solve_many(source, RESTARTED, out=out, certify=False, **options)


def write_arrays(folder, problem, suffix):
    """A and b of the problem, over what is there."""
    paths = [folder / f"{name}{suffix}" for name in "Ab"]
    for path, array in zip(paths, (problem.f.A.numpy(), problem.f.b.numpy()), strict=True):
        if suffix == ".npy":
            np.save(path, array)
        else:
            pytest.importorskip("zarr").create_array(path, data=array, chunks=array.shape, overwrite=True)
    return paths


def write_file(folder, problem, suffix):
    path = folder / f"p{suffix}"
    if suffix == ".npz":
        np.savez(path, A=problem.f.A, b=problem.f.b)
    elif suffix == ".csv":
        table = np.column_stack([problem.f.A, problem.f.b[0]])
        np.savetxt(path, table, delimiter=",", fmt="%+.17e")  # as many bytes, whatever the numbers are
    else:
        pytest.importorskip("scipy.io").savemat(path, {"A": problem.f.A.numpy(), "b": problem.f.b.numpy()})
    return [path]


@pytest.mark.parametrize(
    ("write", "suffix"),
    [
        (write_arrays, ".npy"),
        (write_arrays, ".zarr"),
        (write_file, ".npz"),
        (write_file, ".csv"),
        (write_file, ".mat"),
    ],
)
def test_a_file_overwritten_with_other_data_of_the_same_shape_is_refused(tmp_path, write, suffix):
    first, second = problems(0, 1), problems(50, 1)
    source, out = write(tmp_path, first, suffix), tmp_path / "out"
    many(source, out, lam=LAM)
    assert many(source, out, lam=LAM).all_converged  # untouched: taken over
    size = [path.stat().st_size for path in source]
    write(tmp_path, second, suffix)
    assert suffix == ".zarr" or [path.stat().st_size for path in source] == size
    with pytest.raises(sp.InputError, match=OTHER):
        many(source, out, lam=LAM)
    (x,) = (part.x for part in many(source, tmp_path / "new", lam=LAM))
    torch.testing.assert_close(x, sp.solve(second, RESTARTED, certify=False).x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("changed", ["A", "b"])
def test_one_changed_number_of_an_array_is_seen(tmp_path, own, changed):
    problem = problems(0, 5, own=own)
    paths = write_arrays(tmp_path, problem, ".npy")
    many(paths, tmp_path / "out", lam=LAM, chunk=2)
    array = np.lib.format.open_memmap(tmp_path / f"{changed}.npy", mode="r+")
    array.reshape(-1)[-1] += 1e-15
    array.flush()
    with pytest.raises(sp.InputError, match="is of other problems"):
        many(paths, tmp_path / "out", lam=LAM, chunk=2)


def test_labels_that_name_no_content_do_not_match(tmp_path):
    """Such as those of shards that were labelled by the names and sizes of files."""
    (path,) = write_file(tmp_path, problems(0, 1), ".npz")
    many([path], tmp_path / "out", lam=LAM)
    shards = Shards(tmp_path / "out")
    solved = shards.read(0)
    shards.path(0).unlink()
    shards.write(0, solved, f"p.npz, {path.stat().st_size} bytes")
    with pytest.raises(sp.InputError, match=OTHER):
        many([path], tmp_path / "out", lam=LAM)


def test_a_file_that_changes_while_it_is_solved_does_not_match_later(tmp_path, monkeypatch):
    (path,) = write_file(tmp_path, problems(0, 1), ".npz")
    read = sp.many.parts.read_problem

    def overwritten(paths, **options):
        write_file(tmp_path, problems(50, 1), ".npz")
        return read(paths, **options)

    monkeypatch.setattr(sp.many.parts, "read_problem", overwritten)
    many([path], tmp_path / "out", lam=LAM)
    with pytest.raises(sp.InputError, match=OTHER):
        many([path], tmp_path / "out", lam=LAM)


def test_the_same_numbers_in_another_kind_of_problem_are_other_problems(tmp_path):
    A, y = problems(0, 3).f.A, torch.ones(3, M, dtype=torch.float64)
    y[:, ::2] = 0
    many([sp.lasso(A, y, 0.01)], tmp_path / "out")
    with pytest.raises(sp.InputError, match=OTHER):
        many([sp.logistic(A, y, 0.01)], tmp_path / "out")


def test_a_function_is_known_by_its_arguments():
    assert function_label(functools.partial(problems, 3, count=4)) == "problems(3, count=4)"
    zeros, ones = (function_label(functools.partial(problems, value)) for value in (np.zeros(N), torch.ones(N)))
    assert zeros != ones
    assert "blake2b" in zeros


def test_shards_say_which_problems_they_hold(tmp_path):
    paths = write_arrays(tmp_path, problems(0, 5), ".npy")
    many(paths, tmp_path / "out", lam=LAM, chunk=3)
    labels = [Shards(tmp_path / "out").label(index) for index in range(2)]
    assert [label.partition(", ")[2] for label in labels] == ["A.npy and b.npy, 0 to 3", "A.npy and b.npy, 3 to 5"]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["shards"] == 2
