"""Names of optimizers, which Python and the command line share. Standard library only: shell completion reads them."""

from pathlib import Path

PRETRAINED = Path(__file__).parents[1] / "optimizers" / "pretrained"
NAMED = ("sure", "fista-restart", "fista", "ista")  # sure: its weights for problems of this kind


def pretrained_names(directory: Path = PRETRAINED) -> list[str]:
    """KIND/NAME of the optimizers that ship with the package."""
    cards = directory.glob("*/*.json")
    return sorted(f"{card.parent.name}/{card.stem}" for card in cards if card.with_suffix(".safetensors").exists())
