"""Weights on disk: what is saved comes back bit for bit, and what is wrong is refused with one line that says why."""

import hashlib
import json
import os
import pickle
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors

import sureprox as sp
from helpers import refused
from optimizer_cases import F64, M, calm, gap, path, seeded, small_problem, start_point
from sureprox.base.files import write_atomically
from sureprox.optimizers import L2ODM, L2OPA, AdaLISTA, GoMathL2O, RNNProp, from_released, read_card, weights

MODELS = {
    "go-math-l2o": lambda: GoMathL2O(gradient_map="std", q_shrink="1/L", activation="softplus", hidden=4, layers=1),
    "l2o-pa": lambda: L2OPA(activation="softplus", hidden=4, initial_state="random"),
    "l2o-dm": lambda: L2ODM(step_size=0.25, hidden=4),
    "rnnprop": lambda: RNNProp(beta1=0.5, beta2=0.25, step_size=0.125, hidden=4, eps=0.5),
    "ada-lista": lambda: AdaLISTA(M, layers=3),
}


def refused_weights(call, *parts: str) -> None:
    refused(call, *parts, error=sp.WeightsError)


@pytest.fixture
def model(tmp_path) -> Path:
    """The path, without suffix, of a small saved model."""
    sp.save(calm(GoMathL2O(hidden=4, layers=1)), tmp_path / "model", seed=3)
    return tmp_path / "model"


def files(stem: Path) -> tuple[Path, Path]:
    return stem.with_name(stem.name + ".safetensors"), stem.with_name(stem.name + ".json")


def edit_card(stem: Path, **changes) -> None:
    card = files(stem)[1]
    card.write_text(json.dumps(json.loads(card.read_text()) | changes))


def edit_weights(stem: Path, change) -> None:
    """Write changed tensors, with a card whose sha256 fits."""
    tensors, _ = files(stem)
    data = write_tensors(change(read_tensors(tensors.read_bytes())))
    tensors.write_bytes(data)
    edit_card(stem, sha256=hashlib.sha256(data).hexdigest())


# --- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_save_and_load_are_bitwise(kind, dtype, tmp_path):
    optimizer = calm(MODELS[kind]()).to(dtype)
    sp.save(optimizer, tmp_path / "deep" / "model")
    again = sp.load(tmp_path / "deep" / "model")
    assert type(again) is type(optimizer)
    assert again.arguments == optimizer.arguments
    assert not again.training
    saved = dict(optimizer.named_parameters())
    assert saved.keys() == dict(again.named_parameters()).keys()
    for name, value in again.named_parameters():
        assert value.dtype == dtype
        assert torch.equal(value, saved[name])


def test_the_card_says_what_the_weights_are(tmp_path):
    about = {
        "family": {"name": "lasso", "m": 20},
        "training": {"steps": 5},
        "seed": 0,
        "date": "2025-01-31",
        "metrics": {"loss": 0.5},
        "notes": "small",
    }
    optimizer = MODELS["rnnprop"]()
    card = sp.save(optimizer, tmp_path / "model", **about)
    tensors, text = files(tmp_path / "model")
    assert read_card(tmp_path / "model") == card
    assert json.loads(text.read_text()) == asdict(card)
    assert {name: getattr(card, name) for name in about} == about
    assert card.optimizer == "rnnprop"
    assert card.arguments == optimizer.arguments
    assert card.version == sp.__version__
    assert card.sha256 == hashlib.sha256(tensors.read_bytes()).hexdigest()
    assert card.format == 1


def test_an_unknown_card_field_is_an_error_and_nothing_is_written(tmp_path):
    with pytest.raises(TypeError, match="lerning_rate"):
        sp.save(MODELS["l2o-dm"](), tmp_path / "model", lerning_rate=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["", ".safetensors", ".json"])
@pytest.mark.parametrize("convert", [str, Path])
def test_load_by_path_with_or_without_suffix(model, suffix, convert):
    assert isinstance(sp.load(convert(f"{model}{suffix}")), GoMathL2O)


def test_save_with_suffix_and_with_a_dot_in_the_name(tmp_path):
    sp.save(MODELS["l2o-dm"](), tmp_path / "model.v2.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.v2.json", "model.v2.safetensors"]
    assert isinstance(sp.load(tmp_path / "model.v2"), L2ODM)


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_pretrained_name_loads_and_its_card_agrees():
    names = sp.pretrained()
    assert names == sorted(set(names))
    for name in names:
        kind, _, variant = name.partition("/")
        assert variant
        assert sp.load(name).kind == kind
        assert read_card(name).optimizer == kind


def test_pretrained_lists_what_is_in_the_package_and_solve_takes_names(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "PRETRAINED", tmp_path)
    assert sp.pretrained() == []
    refused_weights(lambda: sp.load("go-math-l2o/laso"), "no model 'go-math-l2o/laso'", "`sureprox models` lists")
    optimizer = calm(GoMathL2O(hidden=4))
    for name in ("l2o-dm/lasso", "go-math-l2o/lasso"):
        sp.save(optimizer if name[0] == "g" else MODELS["l2o-dm"](), tmp_path / name)
    (tmp_path / "l2o-dm" / "half.json").write_text("{}")  # a card without weights is not a model
    assert sp.pretrained() == ["go-math-l2o/lasso", "l2o-dm/lasso"]
    assert isinstance(sp.load("l2o-dm/lasso"), L2ODM)
    refused_weights(
        lambda: sp.load("go-math-l2o/laso"), "'go-math-l2o/laso'; did you mean 'go-math-l2o/lasso'? Or pass the path"
    )
    problem = small_problem("lasso")
    by_name = sp.solve(problem, "go-math-l2o/lasso", max_iter=3)
    assert torch.equal(by_name.x, sp.solve(problem, optimizer, max_iter=3).x)


@pytest.mark.parametrize("name", ["", ".", "/", "x" * 500, "a\0b", "no/such/model"])
def test_names_that_are_no_model(name):
    refused_weights(lambda: sp.load(name), "no model", "pass the path of a .safetensors file")


def test_a_path_to_another_kind_of_file_points_to_from_released(tmp_path):
    (tmp_path / "model.pth").write_bytes(b"x")
    refused_weights(lambda: sp.load(tmp_path / "model.pth"), "not a .safetensors file", "from_released")


def test_wrong_device_says_what_to_call():
    optimizer = GoMathL2O(hidden=4).to("meta")  # stands for any device but the problem's
    refused(
        lambda: optimizer.init(small_problem("lasso"), start_point()),
        "weights are on meta, the problem on cpu",
        "call optimizer.to('cpu')",
    )


@pytest.mark.cuda
def test_load_on_the_gpu(model):
    optimizer = sp.load(model, device="cuda")
    assert next(optimizer.parameters()).is_cuda
    problem = small_problem("lasso")
    refused(lambda: optimizer.init(problem, start_point()), "weights are on cuda:0", "call optimizer.to('cpu')")


# --- released checkpoints ---------------------------------------------------------------------------------------------

RELEASED = {
    "lasso_go_math_l2o_lhnor": {},
    "lasso_go_math_l2o_lh": {"gradient_map": "lh"},
    "lasso_go_math_l2o_std": {"gradient_map": "std"},
    "logistic_go_math_l2o_lhnor": {"activation": "softplus"},
    "lasso_l2o_pa": {},
    "logistic_l2o_pa": {"activation": "softplus"},
    "lasso_l2o_dm": {},
    "logistic_rnnprop": {},
    "lasso_rnnprop": {},
    "lasso_ada_lista": {},
}
WRAPPERS = {
    "plain": lambda d: d,
    "module": lambda d: {f"module.{k}": v for k, v in d.items()},
    "state_dict": lambda d: {"state_dict": d, "epoch": 3},
    "both": lambda d: {"state_dict": {f"module.{k}": v for k, v in d.items()}},
}


def released(data) -> dict[str, torch.Tensor]:
    return {k.removeprefix("param."): torch.tensor(v) for k, v in data.items() if k.startswith("param.")}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("case", RELEASED)
def test_a_released_checkpoint_walks_its_path(case, wrapper, golden, tmp_path):
    data = golden(case)
    torch.save(WRAPPERS[wrapper](released(data)), tmp_path / "model.pth")
    optimizer = from_released(tmp_path / "model.pth", **RELEASED[case])
    assert optimizer.kind.replace("-", "_") in case
    A, b, lam, expected = torch.tensor(data["A"]), torch.tensor(data["b"]), float(data["lam"]), torch.tensor(data["x"])
    problem = sp.lasso(A, b, lam) if case.startswith("lasso") else sp.logistic(A, b, lam, curvature=1.0)
    state = optimizer.init(problem, expected[0], step_size=0.9999 / problem.lipschitz(exact=True))
    if "h0" in data:
        state = replace(state, h=torch.tensor(data["h0"]), c=torch.tensor(data["c0"]))
    with torch.no_grad():
        for k in range(1, 9):
            state = optimizer.step(problem, state)
            assert gap(state.x, expected[k]) <= 1e-9, f"step {k}"


def checkpoint(kind: str) -> dict[str, torch.Tensor]:
    """A released state dict of a small model."""
    optimizer = calm(MODELS[kind]())
    own = dict(optimizer.named_parameters())
    return {theirs: own[ours].detach().clone() for ours, theirs in optimizer.released_names().items()}


def read(content, tmp_path, **arguments):
    torch.save(content, tmp_path / "model.pth")
    return from_released(tmp_path / "model.pth", **arguments)


@pytest.mark.parametrize("kind", MODELS)
def test_sizes_and_precision_are_taken_from_the_checkpoint(kind, tmp_path):
    given = {k: v.to(torch.bfloat16) for k, v in checkpoint(kind).items()}
    optimizer = read(given, tmp_path)
    assert optimizer.kind == kind
    for name, theirs in optimizer.released_names().items():
        value = dict(optimizer.named_parameters())[name]
        assert value.dtype == torch.bfloat16
        assert torch.equal(value.detach(), given[theirs])


@pytest.mark.parametrize(
    ("kind", "unused"),
    [("go-math-l2o", ["linear_b3", "linear_b4"]), ("l2o-pa", ["linear_b", "linear_b1", "linear_b2"])],
)
def test_heads_that_the_method_does_not_use_are_tolerated_and_other_extras_are_not(kind, unused, tmp_path):
    extra = {f"{layer}.{part}": torch.ones(4) for layer in unused for part in ("weight", "bias")}
    assert read(checkpoint(kind) | extra, tmp_path).kind == kind
    other = {"linear_z.weight": torch.ones(1, 4)}
    refused_weights(lambda: read(checkpoint(kind) | other, tmp_path), kind, "unknown linear_z.weight")


@pytest.mark.parametrize("kind", MODELS)
def test_missing_extra_misshapen_and_nan_entries_of_a_released_checkpoint(kind, tmp_path):
    good = checkpoint(kind)
    last = list(good)[-1]
    missing = {k: v for k, v in good.items() if k != last}
    refused_weights(lambda: read(missing, tmp_path), kind, f"lack {last}")
    refused_weights(lambda: read(good | {"other": torch.ones(1)}, tmp_path), kind, "unknown other")
    refused_weights(lambda: read(good | {last: torch.ones(3, 7)}, tmp_path), f"{last} has shape (3, 7)")
    refused_weights(lambda: read(good | {last: good[last] * float("nan")}, tmp_path), "not finite")
    refused_weights(lambda: read(good | {last: torch.ones(good[last].shape).long()}, tmp_path), "not finite floating")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ({}, "none of the layers"),
        ({"a": torch.ones(1)}, "its keys start ['a']"),
        ({0: torch.ones(1)}, "none of the layers"),
        ([torch.ones(1)], "holds a list"),
        ({"W1": "eye"}, "holds a dict, not a state dict of tensors"),
        ({"linear_r.weight": torch.ones(1, 4)}, "lstm.weight_hh_l0 is missing"),
        ({"W1": torch.tensor(1.0)}, "W1 is missing or not a matrix"),
        ({"W1": torch.ones(4, 4), "W2": torch.ones(4, 4)}, "layers is 0"),
    ],
)
def test_checkpoints_of_something_else(content, part, tmp_path):
    refused_weights(lambda: read(content, tmp_path), part)


def test_released_arguments_that_cannot_be(tmp_path):
    good = checkpoint("go-math-l2o")
    refused_weights(lambda: read(good, tmp_path, gradient_map="lhnorm"), "gradient_map is 'lhnorm'", "'lh'")
    refused_weights(lambda: read(good, tmp_path, gradiant_map="lh"), "gradiant_map")
    refused_weights(lambda: read(good, tmp_path, hidden=7), "has shape", "needs")
    refused_weights(lambda: read(good, tmp_path, biases=True), "without biases", "biases=False")
    refused_weights(lambda: from_released(tmp_path / "nothing.pth"), "there is no file", "nothing.pth")


def test_damaged_checkpoints_are_refused_at_every_length(tmp_path):
    torch.save(checkpoint("l2o-dm"), tmp_path / "whole.pth")
    data, target = (tmp_path / "whole.pth").read_bytes(), tmp_path / "part.pth"
    for length in (0, 1, 2, 10, 100, len(data) // 2, len(data) - 30):
        target.write_bytes(data[:length])
        refused_weights(lambda: from_released(target), "part.pth is not a plain state dict", "nothing was loaded")


def test_load_released_takes_arrays_and_says_what_it_cannot_read():
    optimizer, good = MODELS["l2o-dm"](), checkpoint("l2o-dm")
    optimizer.load_released({f"param.{k}": v.double().numpy() for k, v in good.items()})
    assert {p.dtype for p in optimizer.parameters()} == {F64}
    assert gap(optimizer.network.heads["move"].weight, good["linear.weight"].double()) == 0
    refused_weights(lambda: optimizer.load_released(good | {"linear.bias": "a"}), "linear.bias cannot be read")
    refused_weights(lambda: optimizer.load_released({}), "l2o-dm lack")


# --- files that are wrong ---------------------------------------------------------------------------------------------


class Bomb:
    """Runs a command when unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self):
        return os.mkdir, (str(self.proof),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_is_not_executed(model, tmp_path, protocol):
    proof = tmp_path / "executed"
    bomb = pickle.dumps(Bomb(proof), protocol=protocol)
    pickle.loads(bomb)  # it is a live one
    proof.rmdir()
    edit_card(model, sha256=hashlib.sha256(bomb).hexdigest())
    files(model)[0].write_bytes(bomb)
    refused_weights(lambda: sp.load(model), "model.safetensors is", "pickle" if protocol else "not safetensors")
    (tmp_path / "model.pth").write_bytes(bomb)
    refused_weights(lambda: from_released(tmp_path / "model.pth"), "nothing was loaded")
    torch.save({"W1": Bomb(proof)}, tmp_path / "zip.pth")
    refused_weights(lambda: from_released(tmp_path / "zip.pth"), "nothing was loaded")
    assert not proof.exists()


def test_a_zipped_torch_file_under_the_name_of_safetensors(model):
    target = files(model)[0]
    torch.save({"a": torch.ones(1)}, target)
    edit_card(model, sha256=hashlib.sha256(target.read_bytes()).hexdigest())
    refused_weights(lambda: sp.load(model), "is a pickle, which could run code")


@pytest.mark.parametrize("with_sha", [True, False])
def test_truncated_weights(model, with_sha):
    target = files(model)[0]
    data = target.read_bytes()
    for length in (0, 4, 100, len(data) - 1):
        target.write_bytes(data[:length])
        if with_sha:
            refused_weights(lambda: sp.load(model), "does not match its card (other sha256)")
        else:
            edit_card(model, sha256=hashlib.sha256(data[:length]).hexdigest())
            refused_weights(lambda: sp.load(model), "is damaged or not safetensors")


WEIGHT = "network.lstm.weight_hh_l0"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            lambda w: w | {WEIGHT: torch.ones(16, 5)},
            f"weight {WEIGHT} has shape (16, 5); this go-math-l2o needs (16, 4)",
        ),
        (lambda w: w | {WEIGHT: w[WEIGHT].T.contiguous()}, "has shape (4, 16)"),
        (lambda w: {k: v for k, v in w.items() if k != WEIGHT}, f"lack {WEIGHT}"),
        (lambda w: w | {"network.heads.z.bias": torch.ones(1)}, "have unknown network.heads.z.bias"),
        (lambda w: {}, "and 9 more"),
        (lambda w: w | {WEIGHT: torch.full((16, 4), float("nan"))}, f"weight {WEIGHT} is not finite"),
        (lambda w: w | {WEIGHT: torch.full((16, 4), float("inf"))}, f"weight {WEIGHT} is not finite"),
        (lambda w: w | {WEIGHT: torch.ones(16, 4, dtype=torch.int32)}, f"weight {WEIGHT} is not finite floating point"),
    ],
)
def test_weights_that_do_not_fit(model, change, part):
    edit_weights(model, change)
    refused_weights(lambda: sp.load(model), part)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.bool])
def test_weights_in_dtypes_that_cannot_be_computed_with(model, dtype):
    edit_weights(model, lambda w: w | {WEIGHT: torch.zeros(16, 4).to(dtype)})
    refused_weights(lambda: sp.load(model), f"weight {WEIGHT} is not finite floating point")


def test_refused_weights_change_nothing():
    optimizer = calm(GoMathL2O(hidden=4, layers=1))
    before = {name: value.detach().clone() for name, value in optimizer.named_parameters()}
    bad = {name: torch.ones_like(value, dtype=F64) for name, value in before.items()}
    bad[list(bad)[-1]] *= float("nan")
    refused_weights(lambda: optimizer.take(bad), "not finite")
    for name, value in optimizer.named_parameters():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"sha256": "0" * 64}, ["does not match its card (other sha256)"]),
        ({"optimizer": "l2o-pa", "arguments": {"hidden": 4, "layers": 1}}, ["weights for l2o-pa lack"]),
        ({"arguments": {"hidden": 5, "layers": 1}}, ["has shape", "needs"]),
        ({"arguments": {"hidden": 4, "layers": 2}}, ["lack network.lstm.bias_hh_l1"]),
        ({"arguments": {"hidden": 0}}, ["hidden is 0"]),
        ({"arguments": {"hiden": 4}}, ["hiden"]),
        ({"arguments": [4]}, ["cannot be built from [4]"]),
        ({"optimizer": "sgd"}, ["optimizer is 'sgd'", "known are ada-lista, go-math-l2o, l2o-dm, l2o-pa, rnnprop"]),
        ({"optimizer": ["sgd"]}, ["optimizer is ['sgd']"]),
        ({"format": 2}, ["card format 2", "reads 1"]),
        ({"lerning_rate": 1}, ["unknown lerning_rate"]),
    ],
)
def test_cards_that_do_not_fit(model, change, parts):
    edit_card(model, **change)
    refused_weights(lambda: sp.load(model), *parts)


@pytest.mark.parametrize("field", ["optimizer", "arguments", "format"])
def test_a_card_that_lacks_what_is_needed(model, field):
    card = files(model)[1]
    card.write_text(json.dumps({k: v for k, v in json.loads(card.read_text()).items() if k != field}))
    refused_weights(lambda: sp.load(model), f"it lacks {field}")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe\x00", b"{'a': 1}"])
def test_a_card_that_is_not_json(model, text):
    files(model)[1].write_bytes(text)
    refused_weights(lambda: sp.load(model), "model.json is not a card (not JSON")


def test_a_card_that_is_not_an_object(model):
    files(model)[1].write_text("[1]")
    refused_weights(lambda: sp.load(model), "model.json is not a card", "list")


def test_half_a_model(model):
    tensors, card = files(model)
    kept = card.read_bytes()
    card.unlink()
    refused_weights(lambda: sp.load(model), "cannot read", "model.json", "a .safetensors file and its .json card")
    card.write_bytes(kept)
    tensors.unlink()
    refused_weights(lambda: sp.load(model), "no model")


# --- saving is all or nothing -----------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_model_and_no_scrap(model, monkeypatch):
    before = {p.name: p.read_bytes() for p in model.parent.iterdir()}

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weights.os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        sp.save(calm(GoMathL2O(hidden=4, layers=1), seed=9), model)
    monkeypatch.undo()
    assert {p.name: p.read_bytes() for p in model.parent.iterdir()} == before
    assert isinstance(sp.load(model), GoMathL2O)


def test_a_card_that_cannot_be_written_leaves_the_old_model(model):
    before = {p.name: p.read_bytes() for p in model.parent.iterdir()}
    with pytest.raises(TypeError, match="not JSON serializable"):
        sp.save(calm(GoMathL2O(hidden=4, layers=1), seed=9), model, metrics={"loss": torch.ones(1)})
    assert {p.name: p.read_bytes() for p in model.parent.iterdir()} == before


def test_the_file_is_complete_before_it_takes_its_name(tmp_path, monkeypatch):
    """At the moment of the move everything is on disk under another name in the same folder, and synced."""
    synced = []
    monkeypatch.setattr(weights.os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    seen = []
    move = Path.replace

    def watch(self: Path, target: Path) -> Path:
        seen.append((self.parent == target.parent, self.read_bytes(), target.exists(), list(synced)))
        return move(self, target)

    monkeypatch.setattr(Path, "replace", watch)
    write_atomically(tmp_path / "file", b"all of it")
    assert seen == [(True, b"all of it", False, [9])]
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_saved_optimizer_solves_as_before(model):
    problem, x0 = small_problem("lasso"), start_point()
    kept = calm(GoMathL2O(hidden=4, layers=1))
    assert torch.equal(path(problem, sp.load(model), x0, 5), path(problem, kept, x0, 5))
    assert sp.solve(problem, str(model), x0=x0, max_iter=5, generator=seeded()).x.shape == x0.shape


def test_a_card_edited_into_another_model_is_refused(tmp_path):
    sp.save(GoMathL2O(gradient_map="std"), tmp_path / "m")
    edit_card(tmp_path / "m", arguments=GoMathL2O(gradient_map="lh").arguments)
    refused_weights(lambda: sp.load(tmp_path / "m"), "does not match its weights (other arguments)")


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    optimizer = GoMathL2O()
    with torch.no_grad():
        next(optimizer.parameters()).fill_(torch.nan)
    refused_weights(lambda: sp.save(optimizer, tmp_path / "m"), "is not finite; nothing was saved")
    assert not list(tmp_path.iterdir())
