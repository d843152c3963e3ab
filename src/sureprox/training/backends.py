"""How a run takes its steps: plain PyTorch, compiled or recorded; a way that fails is replaced by plain."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from sureprox.base.errors import ConfigError
from sureprox.kernels import compiler_available
from sureprox.training.run import TrainingRun

T = TypeVar("T")
BACKENDS = ("auto", "plain", "compiled", "graph")


def check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise ConfigError(f"backend is {backend!r}; choose one of {', '.join(BACKENDS)}")


class BackedRun(TrainingRun):
    """A run that begins with plain PyTorch and turns to a quicker backend if there is one here.

    Compilers and captures can fail in many ways; plain PyTorch then does the same work, and an event says so. Work that
    fails must leave weights and generator as they were.
    """

    @abstractmethod
    def use_plain(self) -> None:
        """Take all further steps by plain PyTorch."""

    @abstractmethod
    def use_quick(self) -> None:
        """Take them by the backend `backend_name`, "compiled" or "graph"."""

    def choose(self, backend: str, auto_on_cpu: str) -> None:
        """`backend`, or plain PyTorch where it cannot work; "auto" is "graph" on a GPU."""
        self._fall_to_plain()
        on_gpu = self.device.type == "cuda"
        if backend == "auto":
            backend = "graph" if on_gpu else auto_on_cpu
        if backend == "plain":
            return
        if backend == "graph" and not on_gpu:
            self.tell("note", text="CUDA graphs need a GPU: training with plain PyTorch")
        elif not compiler_available(self.device):
            self.tell("note", text=f"no compiler for {self.device.type} found: training with plain PyTorch")
        else:
            self.backend_name = backend
            try:
                self.use_quick()
            except Exception as error:  # torch.compile refuses some versions of Python at once
                self._fall_back(error)

    def attempt(self, work: Callable[[], T]) -> T:
        exchanged = self.team.calls
        try:
            return work()
        except Exception as error:
            if self.backend_name == "plain" or self.team.calls > exchanged:  # the others will not do it again
                raise
            self._fall_back(error)
            return work()

    def _fall_back(self, error: Exception) -> None:
        reason = str(error).splitlines()[0] if str(error) else ""
        self.tell("note", text=f"{self.backend_name} failed ({type(error).__name__}: {reason}): going on with plain")
        self._fall_to_plain()

    def _fall_to_plain(self) -> None:
        self.backend_name, self.network = "plain", "composed"
        self.use_plain()
