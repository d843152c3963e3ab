"""How a problem will be solved: decided once, before the first iteration, and handed down as a value.

A plan depends on the form of the problem, that is on one instance, on the optimizer and on the engine asked for; not on
the size of the batch, on the number of threads or on what ran before.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch

from sureprox.base.errors import InputError
from sureprox.base.operations import PLAIN, Operations
from sureprox.base.types import Scalars
from sureprox.guarantee import Audited, Certified, CertifiedCheap
from sureprox.guarantee.planned import Planned, estimated_step
from sureprox.kernels import on_cpu, on_gpu
from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.compiled import compiler_available
from sureprox.kernels.runtime.library import build_later, library, native_status, tell_why_not
from sureprox.kernels.runtime.native import suits
from sureprox.kernels.runtime.replay import Accelerated
from sureprox.optimizers import FISTA, LearnedOptimizer, Optimizer
from sureprox.problems import Problem
from sureprox.problems.forms import PLAINLY_DENSE, Form, Loss, Shape, form_of, has_dense

MOST_IDLE = 16  # recorded or compiled steps that are kept for the next solve
MOST_PLANS = 64
GUARANTEES: dict[bool | str, type[Any]] = {True: Certified, "audit": Audited, "cheap": CertifiedCheap}
ONE_AT_A_TIME = ("audit", "cheap")  # values of `certify` with one method for each instance at a time


class Engine(StrEnum):
    AUTO = "auto"  # kernels where they exist, and are built
    PLAIN = "plain"  # single operations of PyTorch: the specification
    KERNELS = "kernels"  # as auto, and builds them first
    COMPILED = "compiled"  # kernels, and everything else by torch.compile


@dataclass(frozen=True)
class Plan:
    """`engine` is what runs: plain, kernels or compiled."""

    engine: Engine
    form: Form
    optimizer: Optimizer[Any]  # without its guarantee
    certify: bool | str  # True, "audit", "cheap" or False
    operations: Operations = PLAIN
    replayed: bool = False  # on a GPU: steps are recorded

    @contextmanager
    def stepping(self) -> Iterator[Optimizer[Any]]:
        """Lends the optimizer of this plan to one run; a recorded or compiled one serves one run at a time."""
        if self.engine is not Engine.COMPILED and not self.replayed:
            yield self.once()
            return
        made = _idle.taken(self.key)
        if made is None:
            made = self._accelerated()
        yield made
        _idle.put(self.key, made)  # not after an error: what it holds is unknown then

    @property
    def key(self) -> tuple[Any, ...]:
        """Plans with equal keys are equal. The optimizer counts as an object, its weights by address and version."""
        weights = self.optimizer.parameters() if isinstance(self.optimizer, LearnedOptimizer) else ()
        changes = tuple((weight.data_ptr(), weight._version) for weight in weights)
        return self.engine, self.form, self.certify, Identity(self.optimizer), changes

    @property
    def guarantee(self) -> str:
        """Its name: tracks, audit, cheap or none."""
        return self.certify if isinstance(self.certify, str) else "tracks" if self.certify else "none"

    def guaranteed(self) -> Optimizer[Any]:
        """The optimizer with its guarantee, if one is asked for."""
        return wrapped(self.optimizer, self.certify, self.operations)

    def _accelerated(self) -> Accelerated[Any]:
        planned = self.once()
        guarantee = planned.optimizer if isinstance(planned.optimizer, Certified) else None
        gpu = self.form.device.type == "cuda"  # where float64 only ends runs, which are too short for a compilation
        compiled = self.engine is Engine.COMPILED and not (gpu and self.form.dtype == torch.float64)
        compiled = compiled and not on_gpu.all_in_kernels(self.operations, guarantee)
        reads = on_gpu.reads_the_problem(self.operations, guarantee)
        return Accelerated(planned, compiled, reads)

    def once(self) -> Planned[Any]:
        """The optimizer whose steps make new states and overwrite none."""
        return Planned(self.guaranteed(), self.operations)


def step_size(problem: Problem, engine: str = "auto") -> Scalars:
    """1/L, estimated as `engine` does."""
    return estimated_step(problem, plan(problem, FISTA(), engine=engine).operations)


class Identity:
    """An object as a key: equal to itself alone, whatever its own `__eq__` says. It lives as long as the key."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class _Idle:
    """A few objects kept for the next solve; who takes one has it alone until it is put back."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._kept: list[tuple[Any, Any]] = []  # the oldest first

    def taken(self, key: Any) -> Any:
        with self._lock:
            for place in reversed(range(len(self._kept))):
                if self._kept[place][0] == key:
                    return self._kept.pop(place)[1]
            return None

    def put(self, key: Any, value: Any) -> None:
        with self._lock:
            self._kept.append((key, value))
            del self._kept[: -self.most]

    def __len__(self) -> int:
        return len(self._kept)


class _Plans:
    """The plans made last, by their keys."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, Plan] = OrderedDict()

    def get(self, key: Any) -> Plan | None:
        with self._lock:
            return self._kept.get(key)

    def put(self, key: Any, value: Plan) -> None:
        with self._lock:
            self._kept[key] = value
            if len(self._kept) > self.most:
                self._kept.popitem(last=False)


_idle = _Idle(MOST_IDLE)
_plans = _Plans(MOST_PLANS)


def plan(
    problem: Problem,
    optimizer: Optimizer[Any],
    certify: bool | str = False,
    engine: str = "auto",
    differentiable: bool = False,
    wait: bool = False,
) -> Plan:
    """The plan for this problem. `engine`: see `Engine`; `differentiable`: gradients must flow, so it is plain.

    `wait`: build missing kernels first for "auto" too.
    """
    chosen = chosen_engine(engine)
    check_certify(certify)
    form = form_of(problem)
    if type(optimizer) in GUARANTEES.values():
        certify = next(name for name, scheme in GUARANTEES.items() if type(optimizer) is scheme)
        optimizer = optimizer.optimizer  # type: ignore[attr-defined]
    else:
        if certify == "auto":
            certify = True if chosen is Engine.COMPILED or shares_reads(form) else "audit"
        if isinstance(optimizer, FISTA) and type(optimizer) is FISTA and certify in ONE_AT_A_TIME:
            certify = certify if certify == "audit" and optimizer.restart else True  # which is a track itself
    optimizer.require_suits(problem)
    if chosen is Engine.COMPILED and certify in ONE_AT_A_TIME:
        raise InputError(f"engine is 'compiled' and certify {certify!r}, which decides step by step; pass certify=True")
    if differentiable and chosen not in (Engine.AUTO, Engine.PLAIN):
        raise InputError(f"engine is {chosen.value!r}, whose steps carry no gradients; pass differentiable=False")
    if chosen is Engine.COMPILED and not has_dense(problem):
        raise InputError("engine is 'compiled', which needs a dense A, and A is an operator; pass engine='auto'")
    simple = Plan(Engine.PLAIN, form, optimizer, certify)
    if differentiable or chosen is Engine.PLAIN:
        return simple
    key = simple.key, chosen
    if (known := _plans.get(key)) is not None:
        return known
    made = _made(simple, chosen, wait or chosen is not Engine.AUTO)
    if made.engine is not Engine.PLAIN:  # a plain one may become another when kernels are built
        _plans.put(key, made)
    return made


def _made(simple: Plan, chosen: Engine, wait: bool) -> Plan:
    device = simple.form.device
    if chosen is Engine.COMPILED and not compiler_available(device):
        raise InputError(f"engine is 'compiled', but torch.compile finds no compiler for {device.type}")
    return (_on_gpu if device.type == "cuda" else _on_cpu)(simple, chosen, wait)


def _on_cpu(simple: Plan, chosen: Engine, wait: bool) -> Plan:
    if chosen is Engine.COMPILED:
        return replace(simple, engine=Engine.COMPILED)
    if simple.form.device.type != "cpu" or not suits(simple.form):
        return simple
    if library(build=wait) is None:
        if chosen is Engine.KERNELS:
            raise InputError(f"engine is 'kernels', but there are none: {native_status()}")
        tell_why_not()
        if not wait:
            build_later()
        return simple
    found = on_cpu.operations(simple.form, simple.optimizer)
    return simple if found == PLAIN else replace(simple, engine=Engine.KERNELS, operations=found)


def at_once(form: Form, engine: str) -> Operations:
    """The operations that solve problems of this form without an optimizer; `PLAIN` where there are none yet."""
    chosen = chosen_engine(engine)
    found = on_cpu.at_once(form) if chosen in (Engine.AUTO, Engine.KERNELS) else PLAIN
    if found is PLAIN or library(build=chosen is Engine.KERNELS) is not None:
        return found
    if chosen is Engine.AUTO:  # "kernels" has waited for the build above
        build_later()
    return PLAIN


def _on_gpu(simple: Plan, chosen: Engine, wait: bool) -> Plan:
    guarantee = wrapped(simple.optimizer, simple.certify, PLAIN)
    found, builds = on_gpu.operations(
        simple.form, simple.optimizer, guarantee if isinstance(guarantee, Certified) else None
    )
    replayed = replace(simple, replayed=can_be_recorded(simple))
    if not wait and not cuda.at_hand(builds):
        cuda.build_later(builds)
        return replayed
    if not cuda.built(builds):
        if chosen is not Engine.AUTO:
            raise InputError(f"engine is {chosen.value!r}, but CUDA's run-time compiler could not build the kernels")
        return replayed
    if chosen is Engine.COMPILED:
        return replace(replayed, engine=Engine.COMPILED, operations=found)
    return replayed if found == PLAIN else replace(replayed, engine=Engine.KERNELS, operations=found)


def can_be_recorded(given: Plan) -> bool:
    """Whether all steps are the same operations: its class says so, and f and r are of this package."""
    own = given.form.loss not in PLAINLY_DENSE or given.form.penalty in (Shape.OWN, Shape.GROUPS, Shape.BALLS)
    says_so = vars(type(given.optimizer)).get("same_every_step", False)
    return bool(says_so) and not own and given.certify not in ONE_AT_A_TIME


def chosen_engine(engine: str) -> Engine:
    """The engine of this name; "auto" is what SUREPROX_ENGINE says, if that is set."""
    name = os.environ.get("SUREPROX_ENGINE") or "auto" if engine == "auto" else engine
    try:
        return Engine(name)
    except ValueError:
        where = "engine" if name == engine else "SUREPROX_ENGINE"
        raise InputError(f"{where} is {name!r}; choose from {', '.join(repr(e.value) for e in Engine)}") from None


def check_certify(certify: Any) -> None:
    if not isinstance(certify, bool) and not (isinstance(certify, str) and certify in ("auto", *ONE_AT_A_TIME)):
        raise InputError(f"certify is {certify!r}; pass 'auto', True, 'audit', 'cheap' or False")


def shares_reads(form: Form) -> bool:
    """Whether three tracks are about as quick as one: kernels let them share each read of A (`audit_cost.py`)."""
    if form.device.type != "cuda":
        return form.lasso and not form.shifted
    return form.loss not in (Loss.OWN, Loss.SOFTMAX) and form.penalty not in (Shape.OWN, Shape.GROUPS)


def wrapped(optimizer: Optimizer[Any], certify: bool | str, operations: Operations) -> Optimizer[Any]:
    """The optimizer with the guarantee that `certify` asks for."""
    if certify is False:
        return optimizer
    made: Optimizer[Any] = GUARANTEES[certify](optimizer, operations)
    return made
