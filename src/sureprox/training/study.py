"""The study of a search: what was tried and what came of it, kept by Optuna in one file; one process writes to it."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sureprox.base.errors import ConfigError, InputError
from sureprox.training.jobs import Ending
from sureprox.training.space import Choice, Space, Value
from sureprox.training.trials import Steps, Told

JOURNAL = "study.journal"
ENDINGS = {  # Optuna's name of a state: ours
    "COMPLETE": Ending.COMPLETED,
    "PRUNED": Ending.PRUNED,
    "FAIL": Ending.FAILED,
    "RUNNING": Ending.INTERRUPTED,
}

TOLD = ("best_validation", "batches", "seconds", "error")  # of an outcome, beside Optuna's own columns


@dataclass(frozen=True)
class TrialRow:
    """One trial: the values it was given, and how it ended."""

    number: int
    values: dict[str, Value]
    ending: Ending
    best_validation: float | None = None  # of a pruned one, what it had reached
    batches: int = 0
    seconds: float = 0.0
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in the summary."""
        return asdict(self) | {"ending": str(self.ending)}


class Study:
    """Opened, or begun, in a directory that this process has locked; `facts` must be those it was begun with.

    The sampler is seeded anew for each trial, by `seed` and its number, and all that it proposes is written at once:
    the values depend on the trials before it alone, wherever the search was interrupted or killed.
    """

    def __init__(
        self, directory: Path, space: Space, first: dict[str, Value], seed: int, facts: dict[str, Any]
    ) -> None:
        import optuna
        from optuna.storages.journal import JournalFileBackend

        path = directory / JOURNAL
        _mend(path)
        try:
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
            self.study = optuna.create_study(storage=storage, study_name="search", load_if_exists=True)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a study ({' '.join(str(error).split())[:100]}); delete it") from None
        self.space, self.first, self.seed = space, first, seed
        plain = json.loads(json.dumps(facts))
        known: dict[str, Any] = self.study.user_attrs.get("facts", {})
        for name in known:
            if known[name] != plain[name]:
                raise ConfigError(f"{directory} was begun with another {name}; use the same, or another directory")
        if not known:
            self.study.set_user_attr("facts", plain)

    def under_way(self) -> dict[int, dict[str, Value]]:
        """Trials that were asked for and not told: their numbers and values."""
        numbers = [row.number for row in self.rows() if row.ending is Ending.INTERRUPTED]
        return {number: self._suggested(self._trial(number)) for number in numbers}

    def ask(self) -> tuple[int, dict[str, Value]]:
        """The number of a new trial and the values to try."""
        if all(trial.state.name != "WAITING" for trial in self.study.trials):
            self.study.enqueue_trial(self._proposed())
        trial = self.study.ask()  # the one that waits
        return trial.number, self._suggested(trial)

    def tell(self, number: int, told: Told) -> None:
        """Keep how a trial ended."""
        from optuna.trial import TrialState

        outcome, trial = told.outcome, self._trial(number)
        reported = self.study.trials[number].intermediate_values  # by a process that was killed while it told
        for batch, best in told.steps:
            if batch not in reported:
                trial.report(best, batch)
        for name in TOLD:
            trial.set_user_attr(name, getattr(outcome, name))
        if outcome.ending is Ending.COMPLETED and outcome.best_validation is not None:
            self.study.tell(number, outcome.best_validation)
            return
        if outcome.ending is Ending.COMPLETED:
            trial.set_user_attr("error", "no validation loss was finite")
        self.study.tell(number, state=TrialState.PRUNED if outcome.ending is Ending.PRUNED else TrialState.FAIL)

    def complete(self) -> tuple[Steps, ...]:
        """How the loss fell in every trial that is complete."""
        trials = [trial for trial in self.study.trials if trial.state.name == "COMPLETE" and trial.intermediate_values]
        return tuple(tuple(sorted(trial.intermediate_values.items())) for trial in trials)

    def rows(self) -> tuple[TrialRow, ...]:
        return tuple(
            TrialRow(trial.number, dict(trial.params), ENDINGS[trial.state.name], **_known(trial.user_attrs))
            for trial in self.study.trials
            if trial.state.name in ENDINGS
        )

    def _trial(self, number: int) -> Any:
        import optuna

        return optuna.trial.Trial(self.study, self.study.trials[number]._trial_id)

    def _proposed(self) -> dict[str, Value]:
        """What the next trial should try: asked of a copy in memory, so that nothing is written value by value."""
        import optuna

        number = len(self.rows())
        sampler = optuna.samplers.TPESampler(seed=(self.seed * 1_000_003 + number) % 2**32)
        copy = optuna.create_study(storage=optuna.storages.InMemoryStorage(), sampler=sampler)
        copy.add_trials(self.study.trials)
        if self.first and number == 0:
            copy.enqueue_trial(self.first)
        return self._suggested(copy.ask())

    def _suggested(self, trial: Any) -> dict[str, Value]:
        """Values of a trial: those it has, and for a new one what the sampler proposes."""
        found: dict[str, Value] = {}
        for key, entry in self.space.items():
            if isinstance(entry, Choice):
                found[key] = trial.suggest_categorical(key, entry.values)
            elif entry.whole:
                found[key] = trial.suggest_int(key, entry.low, entry.high, log=entry.log, step=entry.step or 1)
            else:
                found[key] = trial.suggest_float(key, entry.low, entry.high, log=entry.log, step=entry.step)
        return found


def _known(attributes: dict[str, Any]) -> dict[str, Any]:
    """Without what other programs may have added."""
    return {name: attributes[name] for name in TOLD if name in attributes}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Optuna, which has to be there, says nothing but warnings meanwhile."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError("search needs Optuna, which is not installed; run: pip install optuna") from None
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _mend(path: Path) -> None:
    """Take away what a process that was killed while it wrote has left: half a line, or Optuna's own lock."""
    path.with_name(path.name + ".lock").unlink(missing_ok=True)
    if path.exists():
        data = path.read_bytes()
        if not data.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)
