"""Which operations the compiled kernels of a CPU compute for a form of problem and an optimizer."""

from dataclasses import replace
from typing import Any

from sureprox.base.operations import PLAIN, Operations
from sureprox.kernels.certificate import cpu as cpu_certificate
from sureprox.kernels.certified import cpu as cpu_certified
from sureprox.kernels.lipschitz import cpu as cpu_krylov
from sureprox.kernels.runtime import native as cpu
from sureprox.kernels.support import cpu as cpu_polish
from sureprox.kernels.sure.cpu import suits_sure, sure_move
from sureprox.optimizers import GoMathL2O, LearnedOptimizer, Optimizer, Sure
from sureprox.optimizers.lstm import CoordinateNetwork
from sureprox.problems.forms import Form, Shape


def operations(form: Form, optimizer: Optimizer[Any]) -> Operations:
    """For steps of `optimizer` alone or inside a guarantee. The library must be there."""
    if not cpu.suits(form):
        return PLAIN
    found = _moves(form, optimizer)
    if form.m and form.contiguous and form.m * form.n <= cpu.LARGEST_ALONE:
        found = replace(found, largest=cpu_krylov.largest_eigenvalue)
    if not cpu.suits_squares(form):
        return found
    found = replace(found, gradient=cpu.gradient, look=cpu_certified.look, ahead=cpu_certified.ahead)
    if not form.lasso:
        return found
    found = replace(found, certificate=cpu_certificate.certificate)
    if found.move is not None and type(optimizer) in (Sure, GoMathL2O):
        found = replace(found, step=found.move)
    if form.shifted:
        return found
    if form.m <= cpu_polish.MOST_ROWS:
        found = replace(found, points=cpu_polish.points)
    turn = cpu_certified.go_math_turn if found.move is cpu.go_math_move else None
    return replace(
        found,
        compare=cpu_certified.compare,
        follow=cpu_certified.follow,
        follow_cheap=cpu_certified.follow_cheap,
        turn=turn,
    )


def _moves(form: Form, optimizer: Optimizer[Any]) -> Operations:
    """Whole moves where r = lam |x|_1, else the network of the coordinates alone."""
    network = getattr(optimizer, "network", None)
    if form.penalty is Shape.L1 and suits_sure(optimizer):
        return Operations(move=sure_move)
    if not isinstance(optimizer, LearnedOptimizer) or type(network) is not CoordinateNetwork:
        return PLAIN
    if form.penalty is Shape.L1 and type(optimizer) is GoMathL2O:
        return Operations(move=cpu.go_math_move)
    quick = optimizer.sharing_weights()
    quick._modules["network"] = cpu.NativeNetwork(network)
    return Operations(move=lambda plain, problem, state, seen: quick.move(problem, state, seen))
