"""solve_many against solve, from every kind of source; what is refused, and how."""

import functools
import json

import numpy as np
import pytest
import torch
from cases import LAM, RESTARTED, M, N, problems

import sureprox as sp
from sureprox.many import Results, Stream, map_on, memory_needed
from sureprox.many.shards import Shards


def agree(found, problem, **options):
    """`found` (Solved) is what solve gives for the whole."""
    options = {"tol": 1e-6, "certify": False} | options
    direct = sp.solve(problem, RESTARTED, **options)
    assert torch.equal(found.iterations, direct.iterations)
    torch.testing.assert_close(found.x, direct.x, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.objective, direct.objective)
    assert found.status.tolist() == direct.status.tolist()


def many(source, **options):
    return sp.solve_many(source, RESTARTED, **({"tol": 1e-6, "certify": False} | options))


@pytest.mark.parametrize("own", [False, True])
def test_a_problem_in_chunks_is_the_problem(own):
    problem = problems(3, 23, own=own)
    stream = many(problem, chunk=5)
    assert isinstance(stream, Stream)
    parts = list(stream)
    assert [len(part) for part in parts] == [5, 5, 5, 5, 3]
    assert [part.first for part in parts] == [0, 5, 10, 15, 20]
    assert (stream.problems, stream.shards, dict(stream.counts)) == (23, 5, {"converged": 23})
    agree(many(problem, chunk=5).gathered(), problem)


def test_results_on_disk_are_read_back_in_order(tmp_path):
    problem = problems(3, 23)
    results = many(problem, chunk=5, out=tmp_path / "out")
    assert isinstance(results, Results)
    x = torch.cat([part.x for part in results])
    torch.testing.assert_close(x, sp.solve(problem, RESTARTED, tol=1e-6, certify=False).x, rtol=1e-9, atol=1e-12)
    again = Results.open(tmp_path / "out")
    assert (again.problems, again.shards, again.counts) == (23, 5, results.counts)
    assert 0 < again.worst_relative_gap == results.worst_relative_gap <= 1e-6
    assert again.all_converged
    with np.load(tmp_path / "out" / "shard-00000000.npz") as file:  # readable without this package
        assert [str(file["statuses"][code]) for code in file["status"]] == ["converged"] * 5
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["problems"] == 23


def test_status_and_certificates_survive_the_disk(tmp_path):
    problem = problems(3, 6)
    (part,) = many(problem, out=tmp_path / "out", max_iter=7)
    assert {str(status) for status in part.status} == {"iteration_limit"}
    assert not part.converged.any()
    torch.testing.assert_close(part.gap, problem.duality_gap(part.x))
    torch.testing.assert_close(part.kkt, problem.kkt_residual(part.x))


def test_a_generator_of_all_kinds_of_items(tmp_path):
    pieces = [problems(seed, 4) for seed in range(4)]
    arrays = {"A": pieces[1].f.A.numpy(), "b": pieces[1].f.b.numpy(), "lam": LAM}
    np.savez(tmp_path / "two.npz", A=pieces[2].f.A, b=pieces[2].f.b, lam=LAM)

    def source():
        yield pieces[0]
        yield "lasso", arrays
        yield tmp_path / "two.npz"
        yield functools.partial(problems, 3, 4)

    found = list(many(source()))
    for part, problem in zip(found, pieces, strict=True):
        agree(part, problem)


def test_a_start_in_the_arrays_is_used():
    problem = problems(0, 6)
    solution = sp.solve(problem, RESTARTED, tol=1e-10, certify=False).x
    arrays = {"A": problem.f.A, "b": problem.f.b, "lam": LAM, "x0": solution}
    for chunk in (None, 4):
        (part,) = many([("lasso", arrays)], chunk=chunk)
        assert part.iterations.tolist() == [0] * 6


def test_a_directory_of_files(tmp_path):
    for seed in range(3):
        piece = problems(seed, 3)
        np.savez(tmp_path / f"part-{seed}.npz", A=piece.f.A, b=piece.f.b)
    found = list(many(tmp_path, lam=LAM))
    for seed, part in enumerate(found):
        agree(part, problems(seed, 3))
    assert len(list(many([tmp_path / "part-1.npz"], lam=LAM))) == 1


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_two_arrays_on_disk(tmp_path, own, suffix):
    problem = problems(0, 11, own=own)
    paths = [tmp_path / f"{name}{suffix}" for name in "Ab"]
    for path, array in zip(paths, (problem.f.A.numpy(), problem.f.b.numpy()), strict=True):
        if suffix == ".npy":
            np.save(path, array)
        else:
            zarr = pytest.importorskip("zarr")
            zarr.create_array(path, data=array, chunks=array.shape)
    lam = np.full(11, LAM)
    lam[7] = 0.7  # each problem its own
    wanted = sp.lasso(problem.f.A, problem.f.b, torch.tensor(lam))
    agree(many(paths, lam=lam, chunk=4).gathered(), wanted)


def test_logistic_arrays_on_disk(tmp_path):
    problem = problems(0, 5)
    y = (problem.f.b > 0).double()
    np.save(tmp_path / "A.npy", problem.f.A)
    np.save(tmp_path / "y.npy", y)
    found = many([tmp_path / "A.npy", tmp_path / "y.npy"], kind="logistic", lam_ratio=0.5, chunk=2).gathered()
    lam = 0.5 * sp.logistic(problem.f.A, y, 0.0).scale()[1]
    agree(found, sp.logistic(problem.f.A, y, lam))


def test_the_default_optimizer_is_certified():
    problem = problems(0, 6, dtype=torch.float32)
    found = sp.solve_many(problem, chunk=4).gathered()
    direct = sp.solve(problem)
    assert found.converged.all()
    torch.testing.assert_close(found.x.double(), direct.x.double(), rtol=1e-4, atol=1e-5)


def test_what_was_done_is_not_done_again(tmp_path):
    calls = []

    def make(seed):
        calls.append(seed)
        return problems(seed, 3)

    source = [functools.partial(make, seed) for seed in range(4)]
    many(source, out=tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("shard-*")}
    (tmp_path / "out" / "shard-00000002.npz").unlink()
    (tmp_path / "out" / ".shard-00000002.npz.123.tmp").write_bytes(b"half of it")
    calls.clear()
    seen = []
    results = many(source, out=tmp_path / "out", progress=seen.append)
    assert calls == [2]
    assert (results.problems, seen[-1].found, seen[-1].shards, seen[-1].all_shards) == (12, 9, 4, 4)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*shard-*")} == before


def test_the_cut_of_the_first_run_stays(tmp_path):
    problem = problems(0, 30)
    first = many(problem, out=tmp_path / "out", memory=memory_needed(problem, RESTARTED, False).total(8))
    assert first.shards == 4
    (tmp_path / "out" / "shard-00000000.npz").unlink()
    assert many(problem, out=tmp_path / "out", memory=200_000_000).shards == first.shards


def test_results_of_other_problems_or_options_are_not_taken_over(tmp_path):
    out = tmp_path / "out"
    many([problems(0, 3), problems(1, 3)], out=out)
    for source, options, line in (
        ([problems(0, 3), problems(2, 3)], {}, "shard 1 in .* is of other problems"),
        ([problems(0, 3)], {}, "holds 2 shards, the source has 1"),
        ([problems(0, 3), problems(1, 3)], {"tol": 1e-5}, "was begun with tol 1e-06, not 1e-05"),
        ([problems(0, 3), problems(1, 3)], {"certify": True}, "was begun with certify False, not True"),
    ):
        with pytest.raises(sp.InputError, match=line):
            many(source, out=out, **options)
    with pytest.raises(sp.InputError, match=r"was begun with optimizer 'FISTA\(restart=True\)', not 'default'"):
        sp.solve_many([problems(0, 3)], out=out, tol=1e-6, certify=False)
    assert Results.open(out).problems == 6


def test_one_run_at_a_time(tmp_path):
    out = tmp_path / "out"
    many([problems(0, 3)], out=out)
    with Shards(out).locked(), pytest.raises(sp.InputError, match="another run is writing to"):
        many([problems(0, 3)], out=out)


def test_a_damaged_shard_is_named(tmp_path):
    many([problems(0, 3)], out=tmp_path / "out")
    shard = tmp_path / "out" / "shard-00000000.npz"
    shard.write_bytes(shard.read_bytes()[:500])
    with pytest.raises(sp.InputError, match=r"shard-00000000.npz cannot be read .*remove it and it is made again"):
        many([problems(0, 3)], out=tmp_path / "out")


@pytest.mark.parametrize(
    ("source", "options", "line"),
    [
        (5, {}, "source is a int; pass a Problem"),
        ({"A": 1}, {}, "source is a dict; pass a Problem"),
        ([5], {}, "the source gave a int; each of its items"),
        ([], {}, "the source gave no problems"),
        ("nowhere", {}, "nowhere is not .npz"),
        ("nowhere.npz", {}, "nowhere.npz does not exist"),
        (["A.npy"], {}, "A.npy is not .npz"),
        ([("lasso", {"A": np.ones((2, 3)), "lam": 1.0})], {}, "has no 'b'"),
        ([("lasso", {"A": np.ones((2, 3)), "c": np.ones(2)})], {}, "there is an array 'c'"),
        ([("ridge", {"A": np.ones((2, 3)), "b": np.ones(2)})], {}, "kind is 'ridge'"),
        ([("lasso", {"A": np.full((2, 3), np.nan), "b": np.ones(2), "lam": 1.0})], {}, "A has 6 entries that are NaN"),
        ([problems(0, 2)], {"chunk": 0}, "chunk is 0"),
        ([problems(0, 2)], {"memory": 100}, "one problem needs .* bytes to be solved, and memory is 100"),
        ([problems(0, 2)], {"tol": -1}, "tol is -1"),
        ([problems(0, 2)], {"certify": "dear"}, "certify is 'dear'"),
        ([problems(0, 2)], {"certify": 1}, "certify is 1"),
        ([problems(0, 2)], {"polish": "yes"}, "polish is 'yes'; pass True, False or None"),
        ([problems(0, 2)], {"progress": 3}, "progress is a int; pass a function of one argument"),
        ([problems(0, 2)], {"floor": -1.0}, "floor is -1.0"),
        ([problems(0, 2)], {"out": 3}, "out is a int; pass the path of a directory"),
        ([problems(0, 2)], {"optimizer": "nobody/lasso"}, "no model 'nobody/lasso'"),
        ([problems(0, 2)], {"cluster": 5}, "cluster is a int"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path, monkeypatch, source, options, line):
    monkeypatch.chdir(tmp_path)
    if "cluster" in options:
        pytest.importorskip("distributed")
    with pytest.raises(sp.SureproxError, match=line) as error:
        sp.solve_many(source, **({"optimizer": RESTARTED, "out": tmp_path / "out", "certify": False} | options))
    assert "\n" not in str(error.value)


def test_arrays_that_do_not_fit_together(tmp_path):
    np.save(tmp_path / "A.npy", np.ones((M, N)))
    np.save(tmp_path / "b.npy", np.ones((5, M + 1)))
    with pytest.raises(sp.InputError, match=r"A.npy has shape \(12, 24\) and b.npy \(5, 13\)"):
        many([tmp_path / "A.npy", tmp_path / "b.npy"], lam=1.0)
    np.save(tmp_path / "b.npy", np.ones((5, M)))
    with pytest.raises(sp.InputError, match="there are 3 values of lam for 5 problems"):
        many([tmp_path / "A.npy", tmp_path / "b.npy"], lam=[1.0, 2.0, 3.0])
    np.save(tmp_path / "b.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(sp.InputError, match=r"b\.npy holds Python objects, a pickle"):
        many([tmp_path / "A.npy", tmp_path / "b.npy"], lam=1.0)


def test_other_directories_are_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(sp.InputError, match="holds other things"):
        many([problems(0, 2)], out=tmp_path)
    with pytest.raises(sp.InputError, match="holds no results of solve_many"):
        Results.open(tmp_path)
    with pytest.raises(sp.InputError, match="it is a file"):
        many([problems(0, 2)], out=tmp_path / "mine.txt")


def test_map_on_nothing_is_map_and_lazy():
    seen = []
    values = map_on(None, lambda item: seen.append(item) or item**2, iter(range(5)))
    assert seen == []
    assert next(values) == 0
    assert seen == [0]
    assert list(values) == [1, 4, 9, 16]
