"""What a training run tells while it goes, and who listens: a JSONL log always, TensorBoard if asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sureprox.base.errors import InputError
from sureprox.base.files import cannot_write, parse_json

Event = dict[str, Any]  # "event" names its kind: "start", "batch", "validation", "note", "end"
Listener = Callable[[Event], None]


class StopTraining(Exception):  # noqa: N818  a wish, not an error
    """Raised by a listener: the run ends after the batch in hand, with a checkpoint, as after Ctrl-C."""


class JsonLog:
    """One JSON object per line. On resumption the log is cut back to where the checkpoint was written."""

    def __init__(self, path: Path, keep_bytes: int) -> None:
        self.path = path
        try:
            self.file = path.open("r+b" if path.exists() else "w+b")
            length = self.file.seek(0, 2)
            self.file.truncate(min(keep_bytes, length))  # shorter if somebody has removed the log
            self.file.seek(0, 2)
        except OSError as error:
            raise cannot_write(path, error) from None

    def __call__(self, event: Event) -> None:
        try:
            self.file.write(json.dumps(event).encode() + b"\n")
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def flush(self) -> int:
        """Length of what is safely written."""
        try:
            self.file.flush()
        except OSError as error:
            raise cannot_write(self.path, error) from None
        return self.file.tell()

    def close(self) -> None:
        try:
            self.file.close()
        except OSError as error:
            raise cannot_write(self.path, error) from None


def read_log(path: str | Path) -> list[Event]:
    """The events of a log; a last line cut off by a crash is left out."""
    whole, _, _ = Path(path).read_bytes().rpartition(b"\n")
    return [_event(path, number, line) for number, line in enumerate(whole.split(b"\n") if whole else [], 1)]


def _event(path: str | Path, number: int, line: bytes) -> Event:
    try:
        event = parse_json(line)
    except ValueError as error:
        raise InputError(f"{path} is not a training log: line {number}: {error}") from None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise InputError(f"{path} is not a training log: line {number} is not an event")
    return event


class TensorBoard:
    """Writes loss, gradient norm, learning rate and validation as scalars."""

    def __init__(self, directory: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(directory))

    def __call__(self, event: Event) -> None:
        if event["event"] in ("batch", "validation"):
            for name, value in event.items():
                if isinstance(value, float):
                    tag = f"{event['event']}/{name}"
                    self.writer.add_scalar(tag, value, event["batch"])

    def close(self) -> None:
        self.writer.close()
