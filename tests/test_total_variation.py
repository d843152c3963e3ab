"""The kernel for steps on the dual of TV denoising against plain PyTorch; both against what FISTA is."""

import pytest
import torch

import sureprox as sp
from helpers import F64, normal
from sureprox.kernels.runtime.library import library, native_status
from sureprox.kernels.total_variation import cpu
from sureprox.problems import LeastSquares, Problem
from sureprox.problems.operators import Difference
from sureprox.problems.penalties import Box
from sureprox.support.total_variation import dual_steps, from_zero

SIZES = [(7, 9), (1, 12), (12, 1), (2, 2), (70, 33)]


@pytest.fixture(autouse=True)
def built():
    if library(build=True) is None:
        pytest.skip(native_status())


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("size", SIZES)
def test_the_kernel_takes_the_plain_steps(size, dtype, isotropic):
    y, lam = 2 * normal(3, size[0] * size[1], dtype=dtype), torch.tensor([0.3, 1.0, 0.0], dtype=dtype)
    plain, quick = from_zero(y, size), from_zero(y, size)
    rtol, atol = (1e-10, 1e-12) if dtype == F64 else (1e-3, 1e-4)
    for steps in (1, 6, 16):
        plain, expected = dual_steps(y, lam, size, plain, steps, isotropic)
        quick, found = cpu.dual_steps(y, lam, size, quick, steps, isotropic)
        torch.testing.assert_close(quick.p, plain.p, rtol=rtol, atol=atol)
        torch.testing.assert_close(quick.before, plain.before, rtol=rtol, atol=atol)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=100 * atol)
        if dtype == F64:
            torch.testing.assert_close(quick.momentum, plain.momentum)
    assert (plain.momentum[:, 0] > 1).any() or dtype == torch.float32


def test_one_instance_is_what_it_is_in_a_batch():
    y, lam = normal(5, 64 * 50), torch.full((5,), 0.4, dtype=F64)
    together, seen = cpu.dual_steps(y, lam, (64, 50), from_zero(y, (64, 50)), 9, True)
    alone, one = cpu.dual_steps(y[2:3], lam[:1], (64, 50), from_zero(y[2:3], (64, 50)), 9, True)
    assert torch.equal(alone.p[0], together.p[2])
    assert torch.equal(one[0], seen[2])


def test_the_gap_and_the_objective_are_those_of_the_dual_problem():
    y, lam = normal(2, 30), torch.tensor([0.5, 0.1], dtype=F64)
    dual, seen = dual_steps(y, lam, (5, 6), from_zero(y, (5, 6)), 40, False)
    given = Problem(LeastSquares(Difference((5, 6)).T, y), Box(-lam.unsqueeze(1), lam.unsqueeze(1)))
    dual = dual._replace(p=given.prox(dual.p, torch.ones(2, 1, dtype=F64)))  # rounding may leave the box
    proof = given.certificate(dual.p)
    torch.testing.assert_close(seen[:, 0], proof.gap, rtol=1e-9, atol=1e-13)
    lowest = y.square().sum(1) / 2 - proof.objective  # the dual value
    torch.testing.assert_close(seen[:, 1] - seen[:, 0], lowest, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e20])
def test_images_of_any_unit_take_as_many_steps(size, tol):
    y = size * (normal(2, 40, 30) + 3 * (torch.arange(30) > 12))
    found = sp.tv_denoise(y, 0.5 * size, tol=tol)
    assert found.converged.all()
    usual = sp.tv_denoise(y / size, 0.5, tol=tol)
    assert torch.equal(found.dual.iterations, usual.dual.iterations)
    assert (usual.dual.iterations > 0).all()
    torch.testing.assert_close(found.x / size, usual.x, rtol=1e-6, atol=1e-6)


def test_the_plain_engine_and_other_options_give_the_same_image():
    y = normal(30, 20) + 2 * (torch.arange(20) > 9)
    quick = sp.tv_denoise(y, 0.5, tol=1e-8)
    for options in ({"engine": "plain"}, {"optimizer": sp.optimizers.FISTA(restart=True)}, {"check_every": 5}):
        other = sp.tv_denoise(y, 0.5, tol=1e-8, **options)
        assert other.converged.all()
        torch.testing.assert_close(other.x, quick.x, rtol=0, atol=1e-3)
        torch.testing.assert_close(other.objective, quick.objective, rtol=1e-7, atol=0)


def test_the_callback_sees_the_gap_in_the_unit_of_the_image():
    seen = []
    y = 100 * (normal(30, 20) + 2 * (torch.arange(20) > 9))
    found = sp.tv_denoise(y, 50.0, tol=1e-6, callback=seen.append)
    assert [progress.k for progress in seen] == list(range(16, int(found.dual.iterations) + 1, 16))
    assert seen[-1].unfinished == 0
    half = sp.tv_denoise(y, 50.0, tol=1e-6, max_iter=seen[-2].k)
    assert seen[-2].worst_gap == pytest.approx(float(half.gap[0]), rel=1e-2)
