"""What Newton's method on a face needs, whatever the penalty: widths of systems, parts of a batch, limits."""

from torch import Tensor

RIDGE = 1e-15  # of the largest diagonal entry of H: keeps systems with a flat direction solvable
SLACK = 1e-9  # relative to l1: by which a slope must leave the subdifferential
CHUNK = 2**22  # entries of gathered columns and normal matrices held at a time


def width_of(size: Tensor, n: int) -> Tensor:
    """Candidates of an instance with `size` coordinates on its face: an eighth more, and a few, to a multiple of 16."""
    return ((size + size // 8 + 8 + 15) // 16 * 16).clamp(max=n)


def parts(width: Tensor, m: int) -> list[tuple[Tensor, int]]:
    """Instances with the same width, as many together as there is room for, but for those of width zero.

    So the sizes of all matrices of an instance depend on that one alone, and rounding does not tell its neighbours.
    """
    found = []
    for same in width.unique().tolist():
        room = max(1, CHUNK // max(1, same * (2 * m + 4 * same)))
        found += [(part, same) for part in (width == same).nonzero()[:, 0].split(room) if same]
    return found
