"""What a training run tells while it goes, and who listens: a JSONL log always, TensorBoard if asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Event = dict[str, Any]  # "event" names its kind: "start", "batch", "validation", "note", "end"
Listener = Callable[[Event], None]


class JsonLog:
    """One JSON object per line. On resumption the log is cut back to where the checkpoint was written."""

    def __init__(self, path: Path, keep_bytes: int) -> None:
        self.path = path
        self.file = path.open("r+b" if path.exists() else "w+b")
        length = self.file.seek(0, 2)
        self.file.truncate(min(keep_bytes, length))  # shorter if somebody has removed the log
        self.file.seek(0, 2)

    def __call__(self, event: Event) -> None:
        self.file.write(json.dumps(event).encode() + b"\n")

    def flush(self) -> int:
        """Length of what is safely written."""
        self.file.flush()
        return self.file.tell()

    def close(self) -> None:
        self.file.close()


def read_log(path: str | Path) -> list[Event]:
    """The events of a log; a last line cut off by a crash is left out."""
    events = []
    for line in Path(path).read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            events.append(json.loads(line))
    return events


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
