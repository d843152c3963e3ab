"""How arguments reach a kernel, with a driver that writes down what it is given."""

import ctypes
from types import SimpleNamespace

import pytest
import torch

from sureprox.kernels.runtime import launch as launching


@pytest.fixture
def calls(monkeypatch):
    """What the driver was asked to launch: function, sizes, and the eight bytes of each argument."""
    seen = []
    answers = []

    def driver(function, *rest):
        *sizes, places, extra = rest
        assert extra is None
        given = [ctypes.cast(place, ctypes.POINTER(ctypes.c_uint64))[0] for place in places]
        seen.append((function, sizes, given))
        return answers.pop(0) if answers else 0

    monkeypatch.setattr(launching, "_driver", lambda: driver)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 1)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 70 + device, raising=False)
    return SimpleNamespace(seen=seen, answers=answers)


def test_arguments_and_sizes_reach_the_driver(calls):
    x, nothing = torch.ones(3), torch.empty(0)
    launch = launching.launcher("f", 1)
    launch((4, 2, 1), (256, 1, 1), [x, nothing, 7, -1, 0.5], shared_mem=96)
    ((function, sizes, given),) = calls.seen
    assert function == "f"
    assert sizes == [4, 2, 1, 256, 1, 1, 96, 71]
    assert given[:3] == [x.data_ptr(), 0, 7]
    assert ctypes.c_int(given[3] & 0xFFFFFFFF).value == -1
    assert ctypes.c_longlong(given[3]).value == -1
    assert ctypes.c_double.from_buffer(ctypes.c_uint64(given[4])).value == 0.5


def test_a_tensor_that_is_elsewhere_is_refused(calls):
    launch = launching.launcher("f", 0)
    with pytest.raises(ValueError, match="device 0 was given a tensor that is elsewhere"):
        launch((1, 1, 1), (1, 1, 1), [torch.ones(2)])
    assert not calls.seen


def test_a_launch_that_fails_is_an_error(calls):
    calls.answers.append(700)
    with pytest.raises(RuntimeError, match="error 700"):
        launching.launcher("f", 0)((1, 1, 1), (1, 1, 1), [])


def test_a_thread_that_has_not_used_the_device_yet_tries_again(calls, monkeypatch):
    calls.answers.append(launching.NO_CONTEXT)
    monkeypatch.setattr(torch, "empty", lambda *size, device: torch.zeros(*size))
    launching.launcher("f", 0)((1, 1, 1), (1, 1, 1), [3])
    assert [given for _, _, given in calls.seen] == [[3], [3]]
