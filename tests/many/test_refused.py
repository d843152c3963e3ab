"""A run that cannot begin leaves nothing behind; what was done before stays."""

import pytest
import torch
from cases import LAM, RESTARTED, problems

import sureprox as sp
from sureprox.base import files


def bad():
    return "lasso", {"A": torch.full((12, 24), float("nan")), "b": torch.ones(2, 12), "lam": LAM}


def many(source, out, **options):
    return sp.solve_many(source, RESTARTED, out=out, certify=False, **options)


@pytest.mark.parametrize("source", [[bad], [], [5]])
def test_a_run_without_a_shard_leaves_no_manifest(tmp_path, source):
    with pytest.raises(sp.InputError):
        many(source, tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == []
    many([problems(0, 2)], tmp_path / "deep" / "out", tol=1e-4)  # other options: nothing remembers the first ones


def test_what_was_there_before_a_refused_run_stays(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(sp.InputError, match="holds other things"):
        many([problems(0, 2)], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "out").mkdir()
    with pytest.raises(sp.InputError):
        many([bad], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_shards_that_are_done_stay_with_their_manifest(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(sp.InputError, match="shard 1: "):
        many([problems(0, 2), bad], out)
    assert sorted(path.name for path in out.iterdir()) == [".lock", "manifest.json", "shard-00000000.npz"]
    assert many([problems(0, 2), problems(1, 2)], out).problems == 4


def test_a_lock_that_another_run_removed_is_not_taken(tmp_path, monkeypatch):
    """It would not keep out a third run, which makes a new one."""
    taken, out = files._taken, tmp_path / "out"

    def late(handle, until):
        if (out / files.LOCK).exists():
            (out / files.LOCK).unlink()
        return taken(handle, until)

    monkeypatch.setattr(files, "_taken", late)
    with pytest.raises(sp.InputError, match=r"another run was writing to .*; try again"):
        many([problems(0, 2)], out)
