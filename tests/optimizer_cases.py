"""Every optimizer of the project as a test case, small problems for them, and weights that keep paths bounded."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import product

import torch
from torch import Tensor

import sureprox as sp
from sureprox.guarantee import Audited, Certified, CertifiedCheap
from sureprox.optimizers import (
    FISTA,
    ISTA,
    L2ODM,
    L2OPA,
    PANOC,
    Activation,
    AdaLISTA,
    Adam,
    AdamHD,
    GoMathL2O,
    GradientMap,
    LearnedOptimizer,
    LocalFISTA,
    Optimizer,
    OptISTA,
    ProxNewton,
    QShrink,
    RNNProp,
    Silver,
    SpaRSA,
    State,
    StepSchedule,
    Sure,
)
from sureprox.problems import Problem

F64 = torch.float64
BATCH, M, N, HIDDEN = 3, 8, 10, 5
FAMILIES = ("lasso", "logistic")


@dataclass(frozen=True)
class Case:
    """An optimizer, and what may be asked of it."""

    name: str
    make: Callable[[], Optimizer]
    families: tuple[str, ...] = FAMILIES
    memory: str = "zeros"  # how the LSTM state starts, where there is one
    follows_shift: bool = True  # moving the problem moves the path: the method sees x only through f and r
    growth: float = 1  # by how much more than in ISTA rounding grows on the way: steps made of differences amplify it
    steps: int = 7  # within which no instance is solved
    audited: bool = False  # x is the best point that audits have seen, after 16 iterations the first

    def build(self, dtype: torch.dtype = torch.float32) -> Optimizer:
        """The optimizer, with `calm` weights of this precision if it is a learned one."""
        optimizer = self.make()
        return calm(optimizer).to(dtype) if isinstance(optimizer, LearnedOptimizer) else optimizer


def _go_math(**options) -> Callable[[], Optimizer]:
    return lambda: GoMathL2O(hidden=HIDDEN, **options)


CASES = [
    Case("ista", ISTA),
    Case("fista", FISTA),
    Case("fista-restart", lambda: FISTA(restart=True)),
    Case("local-fista", LocalFISTA, growth=10),
    Case("local-fista-plain", lambda: LocalFISTA(restart=False), growth=10),
    Case("optista", lambda: OptISTA(steps=12)),
    Case("silver", Silver, growth=10),
    Case("steps", lambda: StepSchedule([1.5, 0.7, 2.2], last=1.1)),
    Case("steps-momenta", lambda: StepSchedule([1.5, 0.7, 1.2], [0.1, 0.6, 0.4])),
    Case("sparsa", SpaRSA, growth=100),
    Case("panoc", PANOC, growth=1000),
    Case("panoc-3", lambda: PANOC(memory=3), growth=1000),
    Case("prox-newton", lambda: ProxNewton(inner=50), families=("logistic",), steps=2),
    Case("certified-panoc", lambda: Certified(PANOC()), growth=1000),
    # With the default betas near 0 a step is nearly sign(g), and a g that crosses zero amplifies rounding 10^4 times;
    # these betas keep the paths comparable to 1e-12. The defaults walk in test_golden_classical.py.
    Case("adam", lambda: Adam(beta1=0.9, beta2=0.999)),
    Case("adam-hd", lambda: AdamHD(beta1=0.9, beta2=0.999, hyper_step=1e-3)),
    *(
        Case(f"go-math-{g}-{q}-{a}", _go_math(gradient_map=g, q_shrink=q, activation=a))
        for g, q, a in product(GradientMap, QShrink, Activation)
    ),
    Case("go-math-biases", _go_math(biases=True)),
    Case("go-math-std-biases", _go_math(gradient_map="std", biases=True)),
    Case("go-math-random", _go_math(initial_state="random"), memory="random"),
    Case("go-math-paper", _go_math(initial_state="paper"), memory="paper"),
    *(Case(f"l2o-pa-{a}", lambda a=a: L2OPA(activation=a, hidden=HIDDEN), follows_shift=False) for a in Activation),
    Case("l2o-dm", lambda: L2ODM(hidden=HIDDEN), follows_shift=False),
    Case("rnnprop", lambda: RNNProp(hidden=HIDDEN)),
    Case("l2o-pa-random", lambda: L2OPA(hidden=HIDDEN, initial_state="random"), memory="random", follows_shift=False),
    Case("l2o-dm-random", lambda: L2ODM(hidden=HIDDEN, initial_state="random"), memory="random", follows_shift=False),
    Case("rnnprop-random", lambda: RNNProp(hidden=HIDDEN, initial_state="random"), memory="random"),
    Case("certified", lambda: Certified(calm(GoMathL2O(hidden=HIDDEN, initial_state="random")))),
    Case("certified-fista", lambda: Certified(FISTA(restart=True))),
    Case("certified-cheap", lambda: CertifiedCheap(calm(GoMathL2O(hidden=HIDDEN)))),
    Case("audited", lambda: Audited(calm(GoMathL2O(hidden=HIDDEN))), audited=True),
    Case("audited-local-fista", lambda: Audited(LocalFISTA()), growth=10, audited=True),
    Case("ada-lista", lambda: AdaLISTA(M, layers=5), families=("lasso",)),
    Case("sure", lambda: Sure(coordinate=HIDDEN, instance=6)),
    Case("sure-conjugate", lambda: Sure(coordinate=HIDDEN, instance=6, conjugate=True)),
    Case("sure-light", lambda: Sure(coordinate=0, instance=6)),
    Case("sure-general", lambda: Sure(coordinate=HIDDEN, instance=6, features="general")),
    Case(
        "sure-general-light",
        lambda: Sure(coordinate=0, instance=6, conjugate=True, features="general"),
        growth=100,  # its line search is a quotient of differences, and R reaches four times as far
    ),
    Case("sure-light-conjugate", lambda: Sure(coordinate=0, instance=6, conjugate=True)),
]


def calm(optimizer: LearnedOptimizer, seed: int = 0, q_bias: float = -8.0) -> LearnedOptimizer:
    """Random weights under which every path stays bounded, so that rounding is not amplified.

    With the usual random weights Q is about 1, while the LH and STD maps feed back L (x - x+): those paths diverge.
    Here the heads vary little around R = 1/L, a small Q (`q_bias`), B = 0.3 and a = 0.5; Sure stays near
    restarted FISTA, ADA-LISTA near ISTA.
    """
    generator = torch.Generator().manual_seed(seed)
    centre = {"Q": q_bias, "B": -1.0, "a": -1.0}
    with torch.no_grad():
        for name, value in optimizer.named_parameters():
            noise = torch.randn(value.shape, generator=generator, dtype=F64).to(value.dtype)
            if isinstance(optimizer, AdaLISTA):
                value.add_(0.02 * noise if value.ndim else 0.002 * noise)
            elif isinstance(optimizer, Sure) and name.startswith(("network.heads.", "network.out.")):
                value.copy_(0.1 * noise - (0.2 if name.endswith("bias") else 0.0))
            elif ".heads." in name:
                head = name.split(".")[-2]
                value.copy_(0.1 * noise + (centre.get(head, 0.0) if name.endswith("bias") else 0.0))
            else:
                value.copy_(0.4 * noise)
    return optimizer


def small_problem(
    family: str, batch: int = BATCH, seed: int = 0, shared: bool = False, dtype: torch.dtype = F64
) -> Problem:
    """Random data with L of a few units; every instance has its own lam."""
    generator = torch.Generator().manual_seed(seed)
    shape = (M, N) if shared else (batch, M, N)
    A = torch.randn(shape, generator=generator, dtype=F64)
    A = A / torch.linalg.vector_norm(A, dim=-2, keepdim=True)
    lam = torch.linspace(0.05, 0.15, batch, dtype=F64)
    rhs = torch.randn(batch, M, generator=generator, dtype=F64)
    if family == "lasso":
        return sp.lasso(A, rhs, lam).to(dtype=dtype)
    return sp.logistic(A * M**0.5, (rhs > 0).to(F64), 0.3 * lam).to(dtype=dtype)


def start_point(batch: int = BATCH, seed: int = 1, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(batch, N, generator=torch.Generator().manual_seed(seed), dtype=F64).to(dtype)


def seeded(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def states(problem: Problem, optimizer: Optimizer, x0: Tensor, steps: int, **options) -> list[State]:
    """The states after 0, ..., `steps` steps, without gradients; always from the same generator."""
    with torch.no_grad():
        first = optimizer.init(problem, x0, generator=seeded(), **options)
        return [first, *sp.iterate(problem, optimizer, first, steps)]


def path(problem: Problem, optimizer: Optimizer, x0: Tensor, steps: int, **options) -> Tensor:
    """The iterates x_0, ..., x_steps as (steps + 1, B, n)."""
    return torch.stack([state.x for state in states(problem, optimizer, x0, steps, **options)])


def tensors(thing: object) -> dict[str, Tensor]:
    """The tensor fields of a state, or the tensors of a problem."""
    if isinstance(thing, Problem):
        found = {"shift": thing.shift} | {f"f.{k}": v for k, v in vars(thing.f).items()}
        found |= {f"r.{k}": v for k, v in vars(thing.r).items()}
    else:
        found = {f.name: getattr(thing, f.name) for f in fields(thing)}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def gap(ours: Tensor, theirs: Tensor) -> float:
    """Largest |ours - theirs| / max(1, |theirs|); infinite where either is not finite or the shapes differ."""
    ours, theirs = ours.detach().to(F64), theirs.detach().to(F64)
    if ours.shape != theirs.shape or not (torch.isfinite(ours).all() and torch.isfinite(theirs).all()):
        return float("inf")
    return float(((ours - theirs).abs() / theirs.abs().clamp(min=1)).max())
