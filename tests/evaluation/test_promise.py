"""Promises: the bound of Clopper and Pearson against SciPy's, counts against a plain loop, cards and the record."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from scipy.stats import beta, binom

import sureprox as sp
from sureprox.evaluation.battery import SEEDS, chosen
from sureprox.evaluation.battery_kinds import Kind, LassoDesign
from sureprox.evaluation.promise import (
    CONFIDENCE,
    DRAWS,
    LEVEL,
    MOST,
    NEVER,
    OFTEN,
    SLACK,
    at_least,
    counts,
    from_card,
    lower_bound,
    made,
    on_card,
    promised,
    successes,
    unmeasured,
)
from sureprox.optimizers import load, pretrained, read_card, save

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "promises.json"
SMALL = Kind("small", "lasso", True, LassoDesign(m=20, n=40, nonzeros=4))


@pytest.mark.parametrize(("reached", "instances"), [(0, 5), (1, 7), (30, 60), (1997, 2000), (2000, 2000)])
@pytest.mark.parametrize("confidence", [0.9, CONFIDENCE])
def test_the_bound_is_that_of_clopper_and_pearson(reached: int, instances: int, confidence: float) -> None:
    exact = beta.ppf(1 - confidence, reached, instances - reached + 1) if reached else 0.0
    assert lower_bound(reached, instances, confidence) == pytest.approx(exact, rel=1e-8)
    if reached == instances:
        assert lower_bound(reached, instances, confidence) == pytest.approx((1 - confidence) ** (1 / instances))


def test_the_tail_of_the_binomial() -> None:
    for p in (0.0, 1e-3, 0.5, 0.999, 1.0):
        for reached in (0, 1, 50, 100):
            assert at_least(reached, 100, p) == pytest.approx(binom.sf(reached - 1, 100, p), rel=1e-9)


def test_a_share_that_is_too_low_is_promised_as_rarely_as_the_confidence_says() -> None:
    """At confidence 0.9 the bound is above the true share in at most a tenth of all draws, counted exactly."""
    for p in (0.5, 0.9, 0.99):
        wrong = sum(binom.pmf(k, 50, p) for k in range(51) if lower_bound(k, 50, 0.9) > p)
        assert wrong <= 0.1 + 1e-12
        assert wrong > 0.01 or p == 0.99  # where no draw of 50 can promise as much


def test_counts_are_those_of_a_plain_loop() -> None:
    """F is looked at after each gradient up to `OFTEN`, later when 1 / `OFTEN` more have been taken."""
    found = counts("sure/lasso", SMALL, "pilot", 6, 60)
    drawn = SMALL.sample(6, torch.Generator().manual_seed(SEEDS + DRAWS["pilot"]))
    problem, optimizer = drawn.problem.to(dtype=torch.float32), load("sure/lasso")
    best = sp.reference(problem.to(dtype=torch.float64), tol=1e-12).objective
    expected, looked = [NEVER] * 6, 0
    with torch.no_grad():
        state = optimizer.init(problem, drawn.start.float())
        for k in range(1, 61):
            state = optimizer.step(problem, state)
            if k < looked * (1 + 1 / OFTEN) and k < 60:
                continue
            looked = k
            gap = problem.to(dtype=torch.float64).objective(state.x.double()) / best - 1
            expected = [e if e != NEVER or gap[i] > LEVEL else k for i, e in enumerate(expected)]
    assert found == Counter(expected)
    assert NEVER not in found
    most = max(found)
    assert successes(counts("sure/lasso", SMALL, "pilot", 6, most), most) == 6
    assert successes(counts("sure/lasso", SMALL, "pilot", 6, most - 1), most - 1) < 6


def test_a_promise_says_what_was_counted_and_holds_on_a_fresh_draw() -> None:
    promise = promised("sure/lasso", SMALL, pilot=10, instances=60, fresh=60)
    tried = counts("sure/lasso", SMALL, "pilot", 10, MOST)
    assert promise.gradients == math.ceil(SLACK * max(tried))
    held, fresh = (counts("sure/lasso", SMALL, draw, 60, promise.gradients) for draw in ("held out", "fresh"))
    assert held != fresh  # other problems
    assert (promise.reached, promise.fresh_reached) == tuple(successes(of, promise.gradients) for of in (held, fresh))
    assert 0.5 < promise.share == lower_bound(promise.reached, 60, CONFIDENCE) <= (1e-5) ** (1 / 60) + 1e-12
    assert promise.kept
    percent = math.floor(1e4 * promise.share) / 100
    assert str(promise).startswith(f"with confidence 1 - 1e-05 at least {percent:.2f} % of problems of the kind small")


def test_what_is_not_kept_and_what_is_not_promised_is_said() -> None:
    pilot = Counter({10: 99, 20: 1})
    assert made("kind", pilot).gradients == 25
    broken = made("kind", pilot, Counter({20: 1000}), Counter({24: 1900, 25: 50, 26: 30, NEVER: 20}))
    assert (broken.fresh, broken.fresh_reached, broken.kept) == (2000, 1950, False)
    assert "BROKEN: only 1,950 of 2,000 fresh problems did too" in str(broken)
    nothing = made("kind", Counter({10: 49, NEVER: 51}))
    assert (nothing.share, nothing.instances) == (0.0, 0)
    assert (
        str(nothing)
        == "nothing is promised on kind: 49 of 100 problems of a pilot reached 1e-06 within 1,000 gradients"
    )
    half = made("kind", Counter({10: 50, NEVER: 50}), Counter({10: 500, NEVER: 500}))
    assert half.share == lower_bound(500, 1000, CONFIDENCE) < 0.44


def test_a_card_holds_promises(tmp_path: Path) -> None:
    save(load("sure/lasso-light"), tmp_path / "own", family={"name": "sure-lasso"})
    first, second = (made("lasso", Counter({k: 100}), Counter({k: 1000})) for k in (10, 20))
    other = made("diabetes", Counter({NEVER: 100}))
    for one in (first, other, second):
        on_card(tmp_path / "own", one)
    card = read_card(tmp_path / "own")
    assert from_card(card.promises) == [other, second]
    assert load(tmp_path / "own") is not None
    missing = unmeasured(card.family, [other, second])
    assert "lasso-64x128" in missing
    assert not {"lasso", "diabetes", "logistic", "box"} & set(missing)
    assert {"lasso", "logistic", "box"} <= set(unmeasured({"name": "sure-general"}, []))
    with pytest.raises(sp.WeightsError, match="a promise on the card is"):
        from_card([{"kind": "lasso"}])


def test_the_cards_of_the_package_say_what_the_record_counted() -> None:
    """Every promise is computed again from the counts; and it holds on the fresh problems of the record."""
    record = json.loads(RECORD.read_text())
    seen = 0
    for model in pretrained():
        for promise in from_card(read_card(model).promises):
            of = record["counts"][promise.kind][model]
            assert promise == made(promise.kind, *(read(of.get(draw, {}).get("counts", "")) for draw in DRAWS))
            if promise.instances:
                exact = beta.ppf(1e-5, promise.reached, promise.instances - promise.reached + 1)
                assert promise.share == pytest.approx(exact, rel=1e-8)
                assert promise.instances >= 1000
                assert promise.kept
            seen += 1
    assert seen > 20


def read(text: str) -> Counter[int]:
    return Counter({int(k): int(n) for k, n in (pair.split(":") for pair in text.split())})


@pytest.mark.parametrize("model", ["sure/lasso", "sure/general"])
def test_a_shipped_promise_holds_on_problems_that_nobody_has_seen(model: str) -> None:
    """Another seed: 100 problems, of which fewer than promised may reach the level once in 10^5 times."""
    (promise,) = [one for one in from_card(read_card(model).promises) if one.kind == "lasso-64x128"]
    (kind,) = chosen([promise.kind])
    reached = successes(counts(model, kind, "fresh", 100, promise.gradients, seed=7), promise.gradients)
    assert binom.cdf(reached, 100, promise.share) > 1e-5
    assert reached >= 95


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from sureprox.cli.promise import promise

    save(load("sure/lasso"), tmp_path / "own")
    sizes = {"pilot": 2, "instances": 4, "fresh": 2, "seed": 1}
    promise(str(tmp_path / "own"), "lasso-64x128", **sizes, card=True, json=True)
    told = json.loads(capsys.readouterr().out)
    assert read_card(tmp_path / "own").promises == [told]
    assert (told["instances"], told["fresh"]) == (4, 2)
    promise("sure/lasso", "lasso-64x128", **sizes, card=False, json=False)
    assert f"within {told['gradients']} gradients" in capsys.readouterr().out
