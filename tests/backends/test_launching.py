"""How arguments reach a kernel: what is declared, and a driver that writes down what it is given."""

import ctypes
import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest
import torch

from sureprox.kernels.runtime import abi
from sureprox.kernels.runtime import launch as launching

FILE, NAME = "lipschitz/orthonormal.cu", "orthonormal"
ADDRESSES = ("block", "scale", "earlier", "out", "images", "scaled")
SIZES = {"size": 7, "count": -1, "known": 0, "apart": 5, "room": 6}


def values(**changed):
    given = dict.fromkeys(ADDRESSES) | SIZES | {"first_drop": 0.5, "second_drop": 0.25}
    return given | changed


@pytest.fixture
def calls(monkeypatch):
    """What the driver was asked to launch: function, sizes, and each argument."""
    seen = []
    answers = []

    def driver(function, *rest):
        *sizes, places, extra = rest
        assert extra is None
        kinds = [kind for _, kind in abi.parameters(FILE, NAME)]
        given = [kind.from_address(place).value for kind, place in zip(kinds, places, strict=True)]
        seen.append((function, sizes, given))
        return answers.pop(0) if answers else 0

    monkeypatch.setattr(launching, "_driver", lambda: driver)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 1)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 70 + device, raising=False)
    return SimpleNamespace(seen=seen, answers=answers)


def test_arguments_and_sizes_reach_the_driver_in_the_order_of_the_kernel(calls):
    x, nothing = torch.ones(3), torch.empty(0)
    launch = launching.launcher("f", FILE, NAME, 1)
    shuffled = dict(reversed(values(block=x, scale=nothing).items()))
    launch((4, 2, 1), (256, 1, 1), shuffled, shared_mem=96)
    ((function, sizes, given),) = calls.seen
    assert function == "f"
    assert sizes == [4, 2, 1, 256, 1, 1, 96, 71]
    assert given == [x.data_ptr(), None, None, None, None, None, 7, -1, 0, 5, 6, 0.5, 0.25]


def test_what_is_missing_or_unknown_is_refused(calls):
    launch = launching.launcher("f", FILE, NAME, 1)
    less = values(blok=None)
    del less["block"]
    with pytest.raises(LookupError, match=r"arguments of orthonormal: missing \['block'\], unknown \['blok'\]"):
        launch((1, 1, 1), (1, 1, 1), less)
    assert not calls.seen


def test_a_tensor_that_is_elsewhere_is_refused(calls):
    launch = launching.launcher("f", FILE, NAME, 0)
    with pytest.raises(ValueError, match="device 0 was given a tensor that is elsewhere"):
        launch((1, 1, 1), (1, 1, 1), values(out=torch.ones(2)))
    assert not calls.seen


def test_a_launch_that_fails_is_an_error(calls):
    calls.answers.append(700)
    with pytest.raises(RuntimeError, match="error 700"):
        launching.launcher("f", FILE, NAME, 0)((1, 1, 1), (1, 1, 1), values())


def test_a_thread_that_has_not_used_the_device_yet_tries_again(calls, monkeypatch):
    calls.answers.append(launching.NO_CONTEXT)
    monkeypatch.setattr(torch, "empty", lambda *size, device: torch.zeros(*size))
    launching.launcher("f", FILE, NAME, 0)((1, 1, 1), (1, 1, 1), values())
    assert [given[6] for _, _, given in calls.seen] == [7, 7]


KERNELS = abi.files("sureprox.kernels")
STRUCTS = [
    *[("certified/certified.h", name) for name in ("Ahead", "Compare", "Follow")],
    *[("network/go_math.h", name) for name in ("GoMath", "Forward")],
    *[("certified/turn.h", "Turn"), ("certificate/certificate.h", "Certificate"), ("support/polish.h", "Polish")],
    *[("lipschitz/spectrum.h", "Largest"), ("sure/sure.h", "Sure"), ("products/gradient.h", "Gradient")],
    *[("working_set/working_set.h", "WorkingSet"), ("total_variation/total_variation.h", "TotalVariation")],
]


@pytest.mark.parametrize(("file", "name"), STRUCTS)
@pytest.mark.parametrize("number", ["float", "double"])
def test_every_struct_is_laid_out_as_the_compiler_does(file, name, number, layouts):
    """Offset of every field and the size, by the C++ compiler and by ctypes."""
    kind = abi.struct(file, name)
    found = [getattr(kind, field).offset for field, _ in kind._fields_] + [ctypes.sizeof(kind)]
    assert found == layouts[file, name, number]
    assert len(set(found)) == len(found) > 6


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """What a program says that names every field of every struct."""
    folder = tmp_path_factory.mktemp("layouts")
    lines, rows = [], []
    for file, name in STRUCTS:
        for number in ("float", "double"):
            rows.append((file, name, number))
            places = [f"offsetof({name}<{number}>, {field})" for field, _ in abi.struct(file, name)._fields_]
            numbers = ", ".join(f"int({place})" for place in [*places, f"sizeof({name}<{number}>)"])
            lines.append(f'for (int v : {{{numbers}}}) std::printf("%d ", v); std::printf("\\n");')
    text = ['#include <cstddef>\n#include <cstdio>\n#include "runtime/native.cpp"\nint main() {', *lines, "}"]
    (folder / "layouts.cpp").write_text("\n".join(text))
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    program = folder / "layouts"
    command = [compiler, "-std=c++17", "-O0", "-pthread", "-Wno-invalid-offsetof", f"-I{KERNELS}"]
    subprocess.run([*command, str(folder / "layouts.cpp"), "-o", str(program)], check=True, timeout=200)
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60).stdout
    return {row: [int(v) for v in line.split()] for row, line in zip(rows, said.splitlines(), strict=True)}


def test_every_entry_point_has_a_struct():
    named = set(re.findall(r"\(const (\w+)<", (KERNELS / "runtime/native.cpp").read_text()))
    assert named == {name for _, name in STRUCTS}


def test_what_cannot_be_read_is_refused():
    with pytest.raises(LookupError, match="declares nothing like"):
        abi.struct("sure/sure.h", "Nothing")
    with pytest.raises(LookupError, match="in one declaration: const T \\*x, y"):
        abi._declared("const T *x, y")
