"""Which operations the CUDA kernels compute for a form of problem and an optimizer, and what must be built for it."""

import copy
from dataclasses import replace
from typing import Any

from sureprox.base.operations import PLAIN, Operations
from sureprox.guarantee import Certified
from sureprox.kernels.certificate import gpu as certificate
from sureprox.kernels.certified import gpu as certified
from sureprox.kernels.lipschitz import gpu_gram, gpu_krylov, gpu_orthonormal
from sureprox.kernels.network import gpu as network
from sureprox.kernels.products import gpu_extrapolated, gpu_gradient
from sureprox.kernels.runtime import cuda
from sureprox.kernels.support import gpu_active_set, gpu_polish
from sureprox.kernels.sure import gpu as sure
from sureprox.optimizers import LearnedOptimizer, Optimizer
from sureprox.problems.forms import Form
from sureprox.support.newton import is_lasso


def operations(
    form: Form, optimizer: Optimizer[Any], guarantee: Certified | None
) -> tuple[Operations, list[cuda.Build]]:
    """For steps of `optimizer`, inside a guarantee or alone."""
    found, builds = _moves(form, optimizer, guarantee)
    more: list[tuple[list[cuda.Build], dict[str, Any]]] = [
        (gpu_gradient.builds(form), {"gradient": gpu_gradient.gradient, "observe": gpu_gradient.observe}),
        (certificate.builds(form), {"certificate": certificate.certificate}),
        (gpu_active_set.builds(form) if is_lasso(form) else [], {"active_set": gpu_active_set.active_set}),
        (gpu_polish.builds(form), {"points": gpu_polish.points}),
        *_estimates(form),
    ]
    for wanted, changes in more:
        if wanted:
            found, builds = replace(found, **changes), [*builds, *wanted]
    return found, builds


def _moves(form: Form, optimizer: Optimizer[Any], guarantee: Certified | None) -> tuple[Operations, list[cuda.Build]]:
    """Of the optimizer and of the tracks beside it."""
    found, builds = PLAIN, sure.builds(form, optimizer)
    if builds:
        found = replace(found, move=sure.SureMove(optimizer))  # type: ignore[arg-type]
    elif wanted := network.builds(form.device, form.dtype, optimizer):
        assert isinstance(optimizer, LearnedOptimizer)
        quick, builds = network.fused(copy.deepcopy(optimizer))[0], wanted
        found = replace(found, move=lambda plain, problem, state, seen: quick.move(problem, state, seen))
    if guarantee is None:
        return found, builds
    first = int(not guarantee.own)
    points = guarantee.count + first
    products, decisions = gpu_extrapolated.builds(form, sorted({1, points})), certified.builds(form, points, first)
    if products:
        found = replace(found, look=gpu_extrapolated.look, ahead=gpu_extrapolated.extrapolate)
    if decisions:
        found = replace(found, follow=certified.follow)
    return found, [*builds, *products, *decisions]


def _estimates(form: Form) -> list[tuple[list[cuda.Build], dict[str, Any]]]:
    """The quickest way to L that is made for the matrices of this form."""
    for builds, way in (
        (gpu_gram.builds(form), gpu_gram.launch_largest),
        (gpu_krylov.builds(form), gpu_krylov.by_one_read),
        (gpu_orthonormal.builds(form), gpu_orthonormal.by_blocks),
    ):
        if form.m and builds:
            return [(builds, {"largest": way})]
    return []


def all_in_kernels(operations: Operations, guarantee: Certified | None) -> bool:
    """Whether a step is a few kernels of this package and products with A, so that there is nothing to compile."""
    own = isinstance(operations.move, sure.SureMove)
    if guarantee is None:
        return own and operations.gradient is not None
    return operations.follow is not None and (own or guarantee.own)


def reads_the_problem(operations: Operations, guarantee: Certified | None) -> bool:
    """Whether such a step reads the tensors of the problem itself, and nothing that was made of them before."""
    products = operations.gradient if guarantee is None else operations.ahead
    return products is not None and all_in_kernels(operations, guarantee)
