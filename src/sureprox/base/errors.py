"""One exception root, so that a caller can catch everything this package says with one name."""

LONGEST = 1000  # characters of a message; the middle of a longer one is left out


class SureproxError(Exception):
    """Root of every error raised on purpose by sureprox. The message is one line: what, got, what to do.

    It may quote what stands in a file, so it is made printable and short here, whatever that is.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


def one_line(text: str) -> str:
    """`text` without line breaks, with what cannot be printed escaped, and not longer than `LONGEST`."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST * 2 // 3]} ... {text[-(LONGEST // 6) :]}"
    return printable(" ".join(text.splitlines()))


def printable(text: str) -> str:
    """`text` with line breaks, escape sequences and whatever else cannot be printed written as in Python."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


class InputError(SureproxError, ValueError):
    """A problem, a starting point or an argument that cannot be used."""


class FileError(SureproxError, OSError):
    """A file that cannot be written. An existing one is unchanged."""


class WeightsError(SureproxError, ValueError):
    """Weights or a model card that cannot be loaded."""


class ConfigError(SureproxError, ValueError):
    """A training configuration that cannot be run."""


class TrainingError(SureproxError, RuntimeError):
    """A training run that had to stop."""


class DataError(SureproxError, RuntimeError):
    """A data set that is missing, damaged or cannot be downloaded."""


class EngineWarning(UserWarning):
    """Solves run more slowly than they could on this machine; the message says what to install."""


class ConvergenceWarning(UserWarning):
    """A solve ended before every problem had converged. `warnings.filterwarnings` can ignore it or make it an error."""


class DerivativeWarning(UserWarning):
    """Derivatives of some solutions are not certified: the gap does not prove at which kinks and bounds they are."""
