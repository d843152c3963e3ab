"""Which operations the compiled kernels of a CPU compute for a form of problem and an optimizer."""

from dataclasses import replace
from typing import Any

from sureprox.base.operations import PLAIN, Operations
from sureprox.kernels.certificate import cpu as certificate
from sureprox.kernels.certified import cpu as certified
from sureprox.kernels.lipschitz import cpu as lipschitz
from sureprox.kernels.network import cpu as network
from sureprox.kernels.products import cpu as products
from sureprox.kernels.runtime.native import LARGEST_ALONE, suits, suits_matrices, suits_squares
from sureprox.kernels.support import cpu as support
from sureprox.kernels.sure.cpu import suits_sure, sure_move
from sureprox.kernels.working_set import cpu as working_set
from sureprox.optimizers import GoMathL2O, LearnedOptimizer, Optimizer, Sure
from sureprox.optimizers.lstm import CoordinateNetwork
from sureprox.problems.forms import Form, Loss, Shape
from sureprox.support.working_set import has_working_sets


def at_once(form: Form) -> Operations:
    """What solves problems of this form without an optimizer, and says what the answers are worth."""
    if not has_working_sets(form):
        return PLAIN
    known = certificate.certificate if form.contiguous and suits(form) else None
    return Operations(certificate=known, solved=working_set.solved)


def operations(form: Form, optimizer: Optimizer[Any]) -> Operations:
    """For steps of `optimizer` alone or inside a guarantee. The library must be there."""
    if not suits(form):
        return PLAIN
    found = _moves(form, optimizer)
    if form.m and form.contiguous and form.m * form.n <= LARGEST_ALONE:
        found = replace(found, largest=lipschitz.largest_eigenvalue)
    if suits_matrices(form) and form.loss is Loss.LOGISTIC and form.separable and not form.weighted:
        found = replace(found, certificate=certificate.certificate)
    if not suits_squares(form):
        return found
    found = replace(found, gradient=products.gradient, look=certified.look, ahead=certified.ahead)
    if not form.separable:
        return found
    found = replace(found, certificate=certificate.certificate)
    if not form.lasso:
        return found
    if found.move is not None and type(optimizer) in (Sure, GoMathL2O):
        found = replace(found, step=found.move)
    if form.shifted:
        return found
    if form.m <= support.MOST_ROWS:
        found = replace(found, points=support.points)
    turn = certified.go_math_turn if found.move is network.go_math_move else None
    return replace(
        found,
        compare=certified.compare,
        follow=certified.follow,
        follow_cheap=certified.follow_cheap,
        turn=turn,
    )


def _moves(form: Form, optimizer: Optimizer[Any]) -> Operations:
    """Whole moves where r = lam |x|_1, else the network of the coordinates alone."""
    inner = getattr(optimizer, "network", None)
    if form.penalty is Shape.L1 and suits_sure(optimizer):
        return Operations(move=sure_move)
    if not isinstance(optimizer, LearnedOptimizer) or type(inner) is not CoordinateNetwork:
        return PLAIN
    if form.penalty is Shape.L1 and type(optimizer) is GoMathL2O:
        return Operations(move=network.go_math_move)
    quick = optimizer.sharing_weights()
    quick._modules["network"] = network.NativeNetwork(inner)
    return Operations(move=lambda plain, problem, state, seen: quick.move(problem, state, seen))
