"""`sureprox solve` on a table: coefficients by name on the screen, in JSON, in CSV and in the .npz."""

import csv
import json

import numpy as np
import pytest

RNG = np.random.default_rng(1)
FEATURES = RNG.standard_normal((80, 4)) + 5
PRICE = FEATURES @ [2.0, 0.0, -1.0, 0.0] + 7 + 0.01 * RNG.standard_normal(80)
RENT = FEATURES @ [0.0, 0.0, 0.0, 3.0] - 2 + 0.01 * RNG.standard_normal(80)
NAMES = ["size", "[age]", "distance", "floor"]  # no markup


@pytest.fixture
def houses(tmp_path):
    with (tmp_path / "houses.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["house", *NAMES, "price", "rent"])
        for i, row in enumerate(np.column_stack([FEATURES, PRICE, RENT]).tolist()):
            writer.writerow([f"no {i}", *row])
    return "houses.csv"


def test_nonzero_coefficients_have_their_names_everywhere(command, houses, tmp_path):
    asked = ("solve", houses, "--target", "price,rent", "--lam", "1,4,9", "--intercept", "--standardize")
    outcome = command(*asked, "--csv", "lines.csv")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert "6 lasso, 80 x 4, from houses.csv" in outcome.out
    assert any(line.split()[:2] == ["size", "1.98706"] or line.strip().startswith("size ") for line in lines)
    assert not any(line.strip().startswith("[age] ") for line in lines)  # it is zero
    assert "3 of 4 features have a coefficient that is not zero" in outcome.out
    assert "shown: 4 of 6 problems; all are in solutions.npz" in outcome.out
    assert "column 'house' was taken as an index; it holds text" in outcome.out
    with np.load(tmp_path / "solutions.npz") as found:
        assert found["features"].tolist() == NAMES
        assert found["target"].tolist() == ["price"] * 3 + ["rent"] * 3
        assert found["l1"].ravel().tolist() == [1, 4, 9] * 2
        x, level = found["x"], found["intercept"]
    np.testing.assert_allclose(x[0], [2, 0, -1, 0], atol=0.05)
    np.testing.assert_allclose(level[3] + x[3] @ FEATURES.mean(0), RENT.mean())
    with (tmp_path / "lines.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["target"] for row in rows] == ["price"] * 3 + ["rent"] * 3
    assert [[float(row[f"coef_{name}"]) for name in NAMES] for row in rows] == x.tolist()
    assert [float(row["intercept"]) for row in rows] == level.tolist()
    told = json.loads(command(*asked, "--json").out)["instances"][3]
    assert told["target"] == "rent"
    assert list(told["coefficients"]) == ["floor"]
    assert told["coefficients"]["floor"] == pytest.approx(x[3, 3])


def test_what_a_newcomer_gets_wrong(refused, houses, tmp_path):
    text = (tmp_path / houses).read_text()
    line = refused("solve", houses, "out.json", "--target", "price", "--lam", "1", "--json")
    assert line == "houses.csv is a table, and 2 files are given; give the table alone"
    (tmp_path / "text.csv").write_text(text.replace(",rent\n", ",rent,city\n").replace("\nno 0,", "\nno 0,Bern,"))
    (tmp_path / "gap.csv").write_text("a,b\n1,2\n3,\n")
    for name, where in (
        ("text.csv", "line 2, column 2 ('size') is 'Bern'"),
        ("gap.csv", "line 3, column 2 ('b') is ''"),
    ):
        expected = f"{name}, {where}, not a finite number; encode text as numbers, fill in or remove what is missing"
        assert refused("solve", name, "--lam", "1") == expected


def test_the_page_of_a_solve_has_every_problem_and_coefficient(command, houses, tmp_path):
    asked = ("solve", houses, "--target", "price,rent", "--lam", "1,4,9", "--intercept", "--report", "solve.html")
    assert command(*asked).code == 0
    text = (tmp_path / "solve.html").read_text()
    assert "6 of 6 converged" in text
    assert text.count("price, lam ") == 6  # a row of the problems, and a heading of the coefficients
    for expected in ("default-src 'none'", "<td>size</td>", "<td>(intercept)</td>", "zeros proved", "found by"):
        assert expected in text
    with np.load(tmp_path / "solutions.npz") as found:
        assert f'data-value="{float(found["x"][0, 0])!r}"' in text
        assert text.count("</td><td>proved</td>") == found["support_certified"].sum() > 0


def test_the_page_escapes_names_and_counts_what_failed(command, tmp_path):
    rows = "\n".join(f"{a},{b},{c}" for a, b, c in RNG.standard_normal((30, 3)))
    (tmp_path / "t.csv").write_text(f"<script>alert(1)</script>,b,c\n{rows}\n")
    asked = (
        "solve",
        "t.csv",
        "--lam",
        "0.001",
        "--optimizer",
        "ista",
        "--no-certify",
        "--no-polish",
        "--max-iter",
        "1",
    )
    assert command(*asked, "--report", "r.html").code == 1
    text = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert '<span class="verdict bad">1 iteration_limit</span>' in text


def test_other_losses_and_one_line_for_what_is_wrong(command, refused, houses):
    outcome = command("solve", houses, "--loss", "huber", "--l1", "0.5", "--intercept")
    assert (outcome.code, outcome.err) == (0, "")
    assert "80 x 5 and an intercept" in outcome.out
    assert "(intercept)" in outcome.out
    assert "no single column 'prise'" in refused("solve", houses, "--target", "prise", "--lam", "1")
    assert "--intercept goes with a table" in refused("solve", "A.npy", "b.npy", "--lam", "1", "--intercept")
