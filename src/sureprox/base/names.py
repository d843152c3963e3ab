"""Names of optimizers, which Python and the command line share. Standard library only: shell completion reads them."""

import difflib
from collections.abc import Collection
from pathlib import Path

PRETRAINED = Path(__file__).parents[1] / "optimizers" / "pretrained"
NAMED = ("sure", "fista-restart", "fista", "ista")  # sure: its weights for problems of this kind


def pretrained_names(directory: Path = PRETRAINED) -> list[str]:
    """KIND/NAME of the optimizers that ship with the package."""
    cards = directory.glob("*/*.json")
    return sorted(f"{card.parent.name}/{card.stem}" for card in cards if card.with_suffix(".safetensors").exists())


def suggested(word: object, known: Collection[str], otherwise: str = "") -> str:
    """did you mean 'sure/lasso'? Where nothing is close: `otherwise`, or all that is known."""
    plain = {name.lower().replace("_", "-"): name for name in known if name != word}
    # its time grows with the square of the length
    close = difflib.get_close_matches(str(word)[:100].lower().replace("_", "-"), list(plain), n=1)
    return f"did you mean {plain[close[0]]!r}?" if close else otherwise or f"choose one of {', '.join(known)}"
