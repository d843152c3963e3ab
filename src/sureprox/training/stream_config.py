"""How Sure is trained: a stream of problems, each of which stays until it is solved."""

import math
from dataclasses import dataclass

from sureprox.base.errors import ConfigError
from sureprox.sources import Family, GeneralMixture, LassoMixture, LogisticMixture
from sureprox.training.config_checks import at_least, check_common, check_types


@dataclass(frozen=True)
class StreamConfig:
    """Back-propagation through `segment` steps at a time; an instance is replaced once solved, or after `horizon`."""

    segment: int = 40  # iterations per back-propagation: what is called a batch in the log
    batch: int = 64  # instances at work at a time
    batches: int = 10_000
    pool: int = 4096  # different problems, solved beforehand
    horizon: int = 600  # most iterations of an instance
    learning_rate: float = 0.004
    warm_up: int = 60  # batches until the learning rate is at its largest; from there it follows a cosine to zero
    clip: float = 1.0  # largest norm of the gradient of the weights; 0 for no limit
    flow: float = 10.0  # largest |dl/dx| |x - x*| of an instance, against its share of the loss, at every step
    detached: bool = True  # no gradient through the features
    validate_every: int = 250
    validation: int = 128  # problems in the fixed validation set
    length: int = 200  # iterations on them
    checkpoint_every: int = 250
    max_failures: int = 500
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_types(self)
        at_least(self, 2, "segment")  # after a single step the state still shares memory with the one before
        at_least(self, 1, "batch", "batches", "pool", "horizon", "warm_up")
        at_least(self, 1, "validate_every", "validation", "length")
        check_common(self)
        if not 0 < self.flow < math.inf:
            raise ConfigError(f"flow is {self.flow}; it must be a number > 0")

    @property
    def total_batches(self) -> int:
        return self.batches

    def rate(self, batch: int) -> float:
        """Learning rate of a batch, counted from 0."""
        cosine = 0.5 * (1 + math.cos(math.pi * batch / self.batches))
        return self.learning_rate * min(1.0, (batch + 1) / self.warm_up) * (0.995 * cosine + 0.005)


ARGUMENTS = {"sure-general": {"features": "general"}}  # of the optimizer, where a preset has some
STREAMS: dict[str, tuple[Family, StreamConfig]] = {
    "sure-lasso": (LassoMixture(), StreamConfig()),
    "sure-logistic": (LogisticMixture(), StreamConfig()),
    "sure-general": (
        GeneralMixture(),
        StreamConfig(
            segment=20,
            batch=32,
            batches=3000,
            pool=384,
            horizon=400,
            validation=48,
            length=120,
            checkpoint_every=100,
        ),
    ),
    "sure-tiny": (
        LassoMixture(m=20, n=32),
        StreamConfig(
            segment=10,
            batch=16,
            batches=60,
            pool=64,
            horizon=60,
            warm_up=10,
            validate_every=20,
            validation=32,
            length=40,
            checkpoint_every=20,
        ),
    ),
}
