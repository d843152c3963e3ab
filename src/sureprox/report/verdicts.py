"""What a rule can decide."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    ARTEFACT = "artefact of the shifted prox"
    UNKNOWN = "cannot be judged"


@dataclass(frozen=True)
class Finding:
    """What a rule makes of the records."""

    verdict: Verdict
    measured: str  # in words, with the numbers
    missing: str = ""  # what it would take to judge, where that is not possible
