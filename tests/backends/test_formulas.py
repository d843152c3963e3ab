"""Constants that C++ and CUDA share are those of the plain code."""

import math
import re
from pathlib import Path

import pytest
import torch

from sureprox.guarantee import tracks
from sureprox.kernels.runtime import cuda
from sureprox.optimizers import sure, sure_features, sure_place
from sureprox.problems import stacked
from sureprox.support import newton

KERNELS = Path(cuda.__file__).parents[1]

SAME = {
    "sure/sure_step.h": {
        "SEEN_INSTANCE": sure_place.SEEN["l1"][0],
        "SEEN_COORDINATE": sure_place.SEEN["l1"][1],
        "LOG2_REACH": math.log2(sure.REACH["l1"]),
        "LEAST_MOMENTUM": sure.MOMENTUM[0],
        "LARGEST_MOMENTUM": sure.MOMENTUM[1],
        "RELUCTANCE": sure.RELUCTANCE,
        "LARGEST_BETA": sure_features.BETA[1],
    },
    "certified/rules.h": {
        "VALUE_ERROR": stacked.VALUE_ERROR,
        "TRIVIAL": stacked.TRIVIAL,
        "STILL": stacked.STILL,
        "GROWTH": tracks.GROWTH,
        "JUMP": tracks.JUMP,
    },
    "support/rules.h": {"SLACK": newton.SLACK},
}


def constants(file: str) -> dict[str, float]:
    """What a header calls by a name in capitals."""
    text = re.sub(r"//.*", "", (KERNELS / file).read_text())
    lines = re.findall(r"constexpr (?:int|double|float) ([^;]*);", text)
    return {name: float(value) for line in lines for name, value in re.findall(r"([A-Z0-9_]+) = ([-\d.e]+)f?\b", line)}


@pytest.mark.parametrize("file", SAME)
def test_constants_are_those_of_the_plain_code(file):
    found = constants(file)
    assert {name: found[name] for name in SAME[file]} == SAME[file]


def test_limits_are_those_of_the_types():
    found = re.findall(r"struct Limits<(\w+)> \{(.*?)\};", (KERNELS / "formulas.h").read_text(), flags=re.DOTALL)
    kinds = {"float": torch.float32, "double": torch.float64}
    assert dict(found).keys() == kinds.keys()
    for kind, text in found:
        values = {name: float(value) for name, value in re.findall(r"(\w+) = ([-\d.e]+)", text)}
        info = torch.finfo(kinds[kind])
        round_off = 1e-8 if kind == "float" else 0.0  # of the decimal digits of a float
        assert values["EPS"] == info.eps
        assert values["TINY"] == pytest.approx(info.tiny, rel=round_off, abs=0)
        assert values["LARGEST"] == pytest.approx(info.max, rel=round_off)


def test_files_are_included_once_and_whole():
    """The run-time compiler of CUDA is given one text."""
    for file in sorted(KERNELS.rglob("*.cu")):
        text = cuda.source(str(file.relative_to(KERNELS)), {"SIZE": 3})
        assert text.startswith("#define SIZE 3\n")
        assert "#include" not in text
        assert text.count("struct Limits;") <= 1
