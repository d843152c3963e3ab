"""The page of `sureprox report`: all records on it, nothing fetched from outside, no name that becomes markup."""

import base64
import hashlib
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_cases import falling, growing, made_up_figure
from report_cases import EVIL, Page, made_up_kind, write_all, write_battery, write_figures, write_log
from sureprox.base.errors import InputError
from sureprox.evaluation.battery_records import KindRecord
from sureprox.evaluation.records import RecordError
from sureprox.report.battery import profile
from sureprox.report.compare import level_text
from sureprox.report.page import gather, page
from sureprox.report.page.audit_section import relative
from sureprox.report.page.battery_section import chart as profile_chart
from sureprox.report.page.curves_section import chart as figure_chart
from sureprox.report.page.markup import element, table
from sureprox.report.page.training_section import POINTS, buckets, scales

SECTIONS = ["claims", "curves", "battery", "audit", "training", "sources"]


def made(*directories: Path) -> Page:
    return Page(page(gather(directories)))


def test_every_record_is_on_the_page(tmp_path: Path) -> None:
    write_all(tmp_path)
    seen = made(tmp_path)
    text = " ".join(seen.inside["main"])
    assert [name for name in seen.ids if name in SECTIONS] == SECTIONS
    titles = [chart["title"] for chart in seen.charts]
    assert len(titles) == seen.tags.count("figure") == 6  # two figures, a profile, two of the audit, a training run
    for part in ("Figure 1. LASSO", "kind", "Lemma 1", "training/run.jsonl", "CPU of a test", "2026-01-03", "seed 7"):
        assert part in text
    assert "machine not on record · date not on record" in text  # audit and log say neither
    for path in tmp_path.rglob("*.json*"):
        assert str(path) in text
        assert hashlib.sha256(path.read_bytes()).hexdigest()[:12] in text


def test_nothing_is_fetched_and_only_this_script_runs(tmp_path: Path) -> None:
    write_all(tmp_path)
    seen = made(tmp_path)
    assert all(address.startswith("#") for address in seen.addresses)
    assert {address[1:] for address in seen.addresses} <= {*seen.ids, "top"}
    style, script = seen.inside["style"][0], seen.inside["script"][1]
    assert "url(" not in style
    assert "@import" not in style
    allowed = dict(part.strip().split(" ", 1) for part in seen.policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for name, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert allowed[name] == f"'sha256-{digest}'"
    assert not any(name == "style" or name.startswith("on") for name in seen.names)  # the policy would refuse these


def test_names_from_records_never_become_markup(tmp_path: Path) -> None:
    write_all(tmp_path / "plain")
    write_all(tmp_path / "evil", EVIL)
    plain, evil = made(tmp_path / "plain"), made(tmp_path / "evil")
    assert evil.tags == plain.tags
    assert sorted(set(evil.names)) == sorted(set(plain.names))
    assert "img" not in evil.tags
    text = " ".join(evil.inside["main"])
    for name in (f"CPU of a test{EVIL}", f"kind{EVIL}", f"Lemma 1{EVIL}", f"m/lasso{EVIL}", f"go{EVIL}"):
        assert name in text
    labels = {series["label"] for chart in evil.charts for p in chart["panels"] for series in p["series"]}
    assert f"sure{EVIL}" in labels
    raw = page(gather([tmp_path / "evil"]))
    assert raw.count("</script>") == 2
    assert raw.lower().count("<script") == 2


def test_the_same_records_give_the_same_page(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert page(gather([tmp_path])) == page(gather([tmp_path]))


def test_overlapping_directories_count_once(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert len(gather([tmp_path, tmp_path / "battery"]).files) == len(gather([tmp_path]).files) == 5


def test_sections_without_records_say_so(tmp_path: Path) -> None:
    write_battery(tmp_path / "battery.json")
    text = " ".join(made(tmp_path).inside["main"])
    for part in ("No records of figures", "no claim can be judged", "No records of an audit", "No training logs"):
        assert f"{part}" in text
    assert f"below {tmp_path}" in text
    (tmp_path / "battery.json").unlink()
    write_figures(tmp_path)
    assert f"No records of the battery below {tmp_path}" in " ".join(made(tmp_path).inside["main"])


def test_no_records_at_all_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no records below"):
        gather([tmp_path])
    with pytest.raises(InputError, match="there is no directory"):
        gather([tmp_path / "absent"])


def test_a_log_that_has_just_begun_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    assert "No batch and no validation in this log yet." in " ".join(made(tmp_path).inside["main"])


BROKEN = {
    "fig1.json": ["{", "[]", '{"format": 1}', '{"format": 9}', "\x00"],
    "battery.json": ["[]", "{}", "[1]", "nothing"],
    "audit.json": ["[]", "{}", "3", '{"statements": 1, "models": [], "growth": [], "counterexamples": []}'],
    "log.jsonl": ["{}\n", "nothing\n", "3\n", '{"event": "batch"}\n', '{"event": "start"}\n{"event": "batch"}\n'],
}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), [(name, text) for name, texts in BROKEN.items() for text in texts])
def test_a_broken_record_is_one_line_with_its_name(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(RecordError) as caught:
        page(gather([tmp_path]))
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", ["short", "text", "name", "scalar"])
def test_a_damaged_figure_is_one_line_with_its_name(tmp_path: Path, change: str) -> None:
    write_figures(tmp_path)
    path = tmp_path / "fig1.json"
    content = json.loads(path.read_text())
    if change == "short":
        content["curves"][0]["mean"].pop()
    elif change == "text":
        content["curves"][0]["mean"][0] = "much"
    elif change == "name":
        content["figure"] = "fig2"
    else:
        content["curves"][0]["date"] = 3
    path.write_text(json.dumps(content))
    with pytest.raises(RecordError, match=re.escape(str(path))):
        page(gather([tmp_path]))


def test_the_numbers_of_a_chart_are_those_of_the_record() -> None:
    record = made_up_figure("fig3", {"l2o-pa/lasso": growing(400), "*": falling(150, 400)})
    data = figure_chart(record).data()
    assert [panel["title"] for panel in data["panels"]] == ["s = ±10", "s = ±20", "s = ±50", "s = ±100"]
    assert data["grids"] == [list(range(401))]  # shared, so written once
    series = {entry["name"]: entry for entry in data["panels"][0]["series"]}
    curve = record.find("l2o-pa/lasso", "lasso/start-10")
    lost = series["L2O-PA -10"]
    assert lost["values"]["mean"] == [value if math.isfinite(value) else None for value in curve.mean]
    assert lost["values"]["mean"].count(None) == 101  # not finite from 300 on: shown as leaving, never left out
    assert lost["end"] == "diverges, 4 of 4 not finite"
    assert lost["open"]
    assert "open" not in series["L2O-PA +10"]
    json.dumps(data, allow_nan=False)


def test_the_axis_ends_where_the_last_curve_does() -> None:
    data = figure_chart(made_up_figure("fig1", {"*": falling(100, 400)})).data()
    assert data["y"]["scales"]["log"] == (1e-12, 1e3)
    assert 150 < data["x"]["scales"]["linear"][1] < 400  # 1e-12 comes before the end of the run


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=5), st.integers(0, 2**20))
def test_a_profile_on_its_grid_is_the_share_at_every_factor(iterations: list[int | None], seed: int) -> None:
    others = [(seed >> i) % 17 + 1 for i in range(len(iterations))]
    records = [made_up_kind("a", "fista-restart", others), made_up_kind("a", "sure", iterations)]
    data = profile_chart(records).data()
    for entry, name in zip(data["panels"][0]["series"], ("fista-restart", "sure"), strict=True):
        grid, values = data["grids"][entry["grid"]], entry["values"]["1e-6"]
        for t, share in zip(grid, values, strict=True):
            assert share == pytest.approx(_share(records, name, t), abs=1e-4)
        assert max(t for t, _ in profile(records)[name]) <= data["x"]["scales"]["log"][1]


def _share(records: list[KindRecord], name: str, t: float) -> float:
    rows = {record.optimizer: record.iterations[1e-6] for record in records}
    count = 0
    for i, mine in enumerate(rows[name]):
        best = min(max(row[i], 1) for row in rows.values() if row[i] is not None)
        count += mine is not None and max(mine, 1) <= t * best * (1 + 1e-12)
    return count / len(rows[name])


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=700))
def test_buckets_hide_no_batch(losses: list[float | None]) -> None:
    found = buckets([{"batch": k + 1, "loss": loss} for k, loss in enumerate(losses)])
    assert len(found) <= POINTS
    assert found[-1].batch == len(losses)
    known = [loss for loss in losses if loss is not None]
    if known:
        lows = [bucket.low for bucket in found if bucket.low is not None]
        assert min(lows) == pytest.approx(min(known), rel=1e-4)
    if None in losses:
        assert any(bucket.high is None for bucket in found)  # the band then reaches beyond the axis
    else:
        assert max(bucket.high for bucket in found) == pytest.approx(max(known), rel=1e-4)
        assert all(b.low <= b.median * (1 + 1e-4 * (1 if b.median > 0 else -1)) + 1e-9 for b in found)


def test_losses_choose_their_axis() -> None:
    assert set(scales([-1.0, 2.0])) == {"linear"}  # a log axis has no place for them
    assert next(iter(scales([1.0, 2.0]))) == "log"
    assert scales([1.0] * 9 + [1e9])["log"][1] < 200  # one wild batch does not flatten the rest
    assert scales([])["linear"] == (0.0, 1.0)


def test_gains_end_where_the_gap_is_rounding() -> None:
    gains, gaps = [[-1.0, -4.0, 9.0], [-3.0, 1.0, 9.0]], [[2.0, 1.0, 1e-13, 0.0], [1.0, 1e-13, 0.0, 0.0]]
    assert relative(gains, gaps) == [-3.0, -4.0, None]


def test_only_elements_are_markup() -> None:
    assert element("p", "<b>", element("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    made_table = table(("a<",), [["<td>"]], "c&")
    assert '<th scope="col">a&lt;</th>' in made_table
    assert "<td>&lt;td&gt;</td>" in made_table
    assert level_text(1e-6) == "1e-6"


def test_a_long_log_keeps_its_first_and_best_validation(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", batches=1000)
    (chart,) = made(tmp_path).charts
    training, validation, best = chart["panels"][0]["series"]
    assert len(chart["grids"][training["grid"]]) == 200
    assert validation["values"]["loss"] == [None, 0.75]
    assert (chart["grids"][best["grid"]], best["values"]["loss"]) == ([1000], [0.75])


def test_the_records_of_this_repository_make_a_page() -> None:
    records = Path(__file__).parents[2] / "records"
    found = gather([records])
    assert {run.directory.name for run in found.reproductions} == {"full"}
    seen = Page(page(found))
    assert [name for name in seen.ids if name in SECTIONS] == SECTIONS
    assert len(seen.charts) > 40  # seventeen figures, the battery's profiles, training runs


def test_copies_in_built_documentation_are_left_out(tmp_path: Path) -> None:
    write_all(tmp_path / "records")
    write_log(tmp_path / "out" / "docs" / "_downloads" / "0123" / "run.jsonl")
    found = gather([tmp_path])
    assert not [path for path in found.files if "_downloads" in path.parts]
    assert len(found.trainings) == 1
