"""Truncated back-propagation through the steps of an optimizer, the paper's way of training."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from sureprox.backends import Compiled, compiler_available
from sureprox.optimizers import InitialState, Optimizer
from sureprox.training.captured import CapturedSegments
from sureprox.training.config import TrainingConfig
from sureprox.training.run import TrainingRun
from sureprox.training.segment import PlainSegments, validation_loss

T = TypeVar("T")
BACKENDS = ("auto", "plain", "compiled", "graph")
WORTH_COMPILING = 2e9  # network evaluations (coordinates x iterations) from which compiling pays on a CPU


class UnrolledRun(TrainingRun):
    """Every batch of fresh problems is unrolled `length` steps, the weights updated after each `segment` of them."""

    def __init__(self, backend: str, *args: Any) -> None:
        super().__init__(*args)
        assert isinstance(self.config, TrainingConfig)
        self.weights = self.config.loss.weights(self.config.segment)
        self.count = self.config.length // self.config.segment
        # what is trained: the same weights, perhaps started from another memory
        self.trainee = self.optimizer.sharing_weights(initial_state=InitialState(self.config.initial_state))
        self._use_plain()
        self._choose(backend)
        generator = self.validation_generator()
        self.validation = self.family.sample(self.config.validation, generator, self.dtype)
        x0 = self.family.start(self.config.validation, generator, self.dtype)
        self.validation_state = self.optimizer.init(self.validation, x0, generator=generator)

    def learn(self) -> Tensor:
        # a second attempt (see `attempt`) must start where the first one did
        random, weights, meta = self.generator.get_state(), self.meta.weights(), self.meta.state()
        try:
            problem = self.family.sample(self.config.batch, self.generator, self.dtype)
            x0 = self.family.start(self.config.batch, self.generator, self.dtype)
            return self.segments.run(problem, x0, self.count, generator=self.generator)
        except Exception:
            self.generator.set_state(random)
            self.meta.put(weights)
            self.meta.load(meta)
            raise

    def validate(self) -> tuple[Tensor, Tensor]:
        assert isinstance(self.config, TrainingConfig)
        return validation_loss(self.validation, self.stepper, self.validation_state, self.config.length)

    def attempt(self, work: Callable[[], T]) -> T:
        """Compilers and captures can fail in many ways; plain PyTorch then does the same work, and an event says so."""
        try:
            return work()
        except Exception as error:
            if self.backend_name == "plain":
                raise
            self._fall_back(error)
            return work()

    def _fall_back(self, error: Exception) -> None:
        reason = str(error).splitlines()[0] if str(error) else ""
        self.tell("note", text=f"{self.backend_name} failed ({type(error).__name__}: {reason}): going on with plain")
        self._use_plain()

    def _use_plain(self) -> None:
        self.backend_name = "plain"
        self.stepper: Optimizer[Any] = self.optimizer
        self.segments: PlainSegments | CapturedSegments = PlainSegments(self.trainee, self.meta, self.weights)

    def _choose(self, backend: str) -> None:
        assert isinstance(self.config, TrainingConfig)
        on_gpu = self.device.type == "cuda"
        if backend == "auto":
            work = self.config.total_batches * self.config.length * self.config.batch * self.family.n
            backend = "graph" if on_gpu else "compiled" if work > WORTH_COMPILING else "plain"
        if backend == "plain":
            return
        if backend == "graph" and not on_gpu:
            self.tell("note", text="CUDA graphs need a GPU: training with plain PyTorch")
        elif not compiler_available(self.device):
            self.tell("note", text=f"no compiler for {self.device.type} found: training with plain PyTorch")
        else:
            self.backend_name = backend
            try:
                self._use_fast()
            except Exception as error:  # torch.compile refuses some versions of Python at once
                self._fall_back(error)

    def _use_fast(self) -> None:
        if self.backend_name == "graph":
            captured = CapturedSegments(self.trainee, self.meta, self.weights)
            self.stepper, self.segments = captured.optimizer, captured
        else:
            self.stepper = Compiled(self.trainee)
            self.segments = PlainSegments(self.stepper, self.meta, self.weights)
