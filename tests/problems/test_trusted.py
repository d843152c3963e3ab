"""Tensors that were looked at once are not looked at again, as long as they stay as they are."""

import pytest
import torch

from sureprox.base.errors import InputError
from sureprox.problems import checks


class OnGPU(torch.Tensor):
    """A tensor that says it is on a GPU."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda")


def test_on_a_cpu_everything_is_looked_at():
    value = checks.trusted(torch.tensor([torch.nan]))
    assert not checks.is_trusted(value)
    with pytest.raises(InputError, match="1 entries that are NaN"):
        checks.require_finite("x0", value)


def test_on_a_gpu_until_it_changes():
    value = torch.tensor([1.0, torch.nan]).as_subclass(OnGPU)
    with pytest.raises(InputError, match="x0 has 1 entries"):
        checks.require_finite("x0", value)
    checks.require_finite("x0", checks.trusted(value))
    value.mul_(2)
    assert not checks.is_trusted(value)
    with pytest.raises(InputError, match="x0 has 1 entries"):
        checks.require_finite("x0", value)


def test_copies_are_not_trusted():
    value = checks.trusted(torch.ones(3).as_subclass(OnGPU))
    assert checks.is_trusted(value)
    assert not checks.is_trusted(value.clone())
    assert not checks.is_trusted(value + 1)


def test_tensors_of_inference_mode_have_no_versions():
    with torch.inference_mode():
        value = torch.ones(3).as_subclass(OnGPU)
        assert not checks.is_trusted(checks.trusted(value))
