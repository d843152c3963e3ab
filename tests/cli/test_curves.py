"""The picture of a training log: what is drawn, and logs that hold little or nothing."""

import json
import math
from pathlib import Path

import matplotlib.image
import pytest

from sureprox.base.errors import InputError
from sureprox.training.curves import draw, running_median, title


def write(path: Path, *events: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def batch(k: int, loss: float | None, skipped: bool = False) -> dict[str, object]:
    return {"event": "batch", "batch": k, "loss": loss, "rate": 0.01, "skipped": skipped}


@pytest.mark.parametrize(
    "events",
    [
        [batch(k, 1000.0 / k) for k in range(1, 30)],
        [batch(1, None, True), batch(2, None, True)],
        [{"event": "validation", "batch": 0, "loss": 2.0, "best": 2.0}],
        [batch(1, 1.0), {"event": "validation", "batch": 1, "loss": None, "best": None}],
        [batch(1, 0.0), batch(2, 100.0)],
    ],
    ids=["wide range", "all failed", "validation only", "validation not finite", "zero loss"],
)
def test_every_log_with_a_number_in_it_is_drawn(tmp_path: Path, events: list[dict[str, object]]) -> None:
    path = draw(write(tmp_path / "log.jsonl", *events), tmp_path / "new" / "curves.png")
    assert matplotlib.image.imread(path).std() > 0


def test_failed_batches_change_the_picture(tmp_path: Path) -> None:
    pictures = []
    for skipped in (False, True):
        log = write(tmp_path / "log.jsonl", *(batch(k, 1.0 + 1 / k, skipped and k == 7) for k in range(1, 20)))
        pictures.append(matplotlib.image.imread(draw(log, tmp_path / "curves.png")))
    assert (pictures[0] != pictures[1]).any()


@pytest.mark.parametrize("text", ["", '{"event": "start", "batch": 0, "recipe": {}}\n', "[\n", "\n"])
def test_a_log_without_numbers_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"log\.jsonl"):
        draw(tmp_path / "log.jsonl", tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()


def test_running_median_leaves_out_what_is_not_finite() -> None:
    assert running_median([1.0, 100.0, 3.0, math.nan, 5.0], 3) == [50.5, 3.0, 51.5, 4.0, 5.0]
    assert math.isnan(running_median([math.nan], 3)[0])


def test_title_says_what_was_trained() -> None:
    recipe = {"optimizer": "l2o-pa", "family": {"name": "lasso", "m": 2, "n": 3}}
    assert title([{"event": "start", "recipe": recipe}]) == "l2o-pa on lasso 2 x 3"
    assert title([]) == "training"
