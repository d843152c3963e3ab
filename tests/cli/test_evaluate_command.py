"""`sureprox evaluate`: a model, by name or by path, on fresh problems."""

import json

import pytest
import torch

from sureprox.evaluation.battery_records import read_records
from sureprox.evaluation.models import parse_move
from sureprox.evaluation.scenarios import Move

FEW = ("--instances", "3", "--iterations", "400", "--device", "cpu")


def test_table_and_record(command, shelf, tmp_path):
    shelf("go-math-l2o/lasso")
    outcome = command("evaluate", "go-math-l2o/lasso", *FEW, "--out", "record.json")
    assert (outcome.code, outcome.err) == (0, "")
    for expected in ("lasso/start+10", "lasso/objective+10", "FISTA with restart", "go-math-l2o/lasso", "m=20, n=40"):
        assert expected in outcome.out
    records = read_records(tmp_path / "record.json")
    assert [(r.kind, r.optimizer) for r in records] == [
        (kind, name)
        for kind in ("lasso", "lasso/start+10", "lasso/objective+10")
        for name in ("fista-restart", "fista", "go-math-l2o/lasso")
    ]
    assert {r.size for r in records} == {(20, 40)}
    assert all(r.instances == 3 for r in records)
    baseline = records[0].iterations
    assert all(a <= b <= c for a, b, c in zip(baseline[1e-3], baseline[1e-6], baseline[1e-9], strict=True))
    # FISTA sees no place: moving the objective by t is moving the start by t
    assert records[3].iterations == records[6].iterations
    assert records[0].iterations != records[3].iterations


def test_json_by_path(command, shelf):
    directory = shelf("go-math-l2o/lasso")
    for path in (directory / "go-math-l2o" / "lasso", directory / "go-math-l2o" / "lasso.safetensors"):
        outcome = command("evaluate", str(path), "--scenario", "s=-2", "--json", *FEW)
        assert (outcome.code, outcome.err) == (0, "")
        found = json.loads(outcome.out)
        assert [record["kind"] for record in found["records"]] == ["lasso/start-2"] * 3
        assert found["records"][0]["median"]["1e-06"] is not None
        assert found["records"][2]["optimizer"] == "go-math-l2o/lasso"


def test_other_models_run_beside_it(command, shelf, tmp_path):
    shelf("go-math-l2o/lasso", "l2o-pa/lasso")
    few = ("--scenario", "ind", "--instances", "2", "--iterations", "30", "--device", "cpu", "--out", "record.json")
    outcome = command("evaluate", "go-math-l2o/lasso", "--against", "l2o-pa/lasso", *few)
    assert (outcome.code, outcome.err) == (0, "")
    names = [record.optimizer for record in read_records(tmp_path / "record.json")]
    assert names[:4] == ["fista-restart", "fista", "go-math-l2o/lasso", "l2o-pa/lasso"]


def test_moves():
    assert parse_move("ind") == (Move.NONE, 0.0)
    assert parse_move("s=10") == (Move.START, 10.0)
    assert parse_move("t = -2.5") == (Move.OBJECTIVE, -2.5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["go-math-l2o/laso"], "no model 'go-math-l2o/laso'"),
        (["go-math-l2o/lasso", "--against", "l2o-po/lasso"], "no model 'l2o-po/lasso'"),
        (["go-math-l2o/lasso", "--family", "ridge"], "family is 'ridge'"),
        (["go-math-l2o/lasso", "--scenario", "u=1"], "scenario is 'u=1'"),
        (["go-math-l2o/lasso", "--scenario", "s=0"], "scenario is 's=0'"),
        (["go-math-l2o/lasso", "--instances", "0"], "--instances"),
        (["go-math-l2o/lasso", "--out", "no/record.json"], "there is no directory"),
        (["go-math-l2o/lasso", "--dtype", "half"], "dtype is 'half'"),
    ],
)
def test_what_is_wrong_is_one_line(refused, shelf, options, expected):
    shelf("go-math-l2o/lasso")
    assert expected in refused("evaluate", *options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu_is_one_line(refused, shelf):
    shelf("go-math-l2o/lasso")
    assert "torch finds no GPU here" in refused("evaluate", "go-math-l2o/lasso", "--device", "cuda")
