"""One exception root, so that a caller can catch everything this package says with one name."""


class SureproxError(Exception):
    """Root of every error raised on purpose by sureprox. The message is one line: what, got, what to do."""


class InputError(SureproxError, ValueError):
    """A problem, a starting point or an argument that cannot be used."""


class WeightsError(SureproxError, ValueError):
    """Weights or a model card that cannot be loaded."""


class ConfigError(SureproxError, ValueError):
    """A training configuration that cannot be run."""


class TrainingError(SureproxError, RuntimeError):
    """A training run that had to stop."""


class DataError(SureproxError, RuntimeError):
    """A data set that is missing, damaged or cannot be downloaded."""
