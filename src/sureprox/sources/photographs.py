"""Patches of the two photographs that ship inside scikit-learn, prepared as those of BSDS500 are."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import DataError
from sureprox.base.types import Rows

SIZE = 8
LUMINANCE = (0.2125, 0.7154, 0.0721)  # of red, green, blue: ITU-R BT.709
SEED = 0


def photograph_patches(count: int) -> Rows:
    """`count` grey 8 x 8 patches (count, 64), shared out evenly over the photographs, at distinct random places."""
    images = [_grey(image) for image in _photographs()]
    generator = torch.Generator().manual_seed(SEED)
    shares = [len(part) for part in np.array_split(range(count), len(images))]
    drawn = [_draw(image, share, generator) for image, share in zip(images, shares, strict=True)]
    return prepared(torch.cat(drawn))


def prepared(patches: Rows) -> Rows:
    """(p - min) / (max - min + 1e-3), then free of its mean; a patch of constant brightness becomes exactly zero."""
    low, high = patches.amin(1, keepdim=True), patches.amax(1, keepdim=True)
    scaled = (patches - low) / (high - low + 1e-3)
    return scaled - scaled.mean(1, keepdim=True)


def _photographs() -> list[Any]:
    """china.jpg and flower.jpg as (height, width, 3) bytes."""
    try:
        from sklearn.datasets import load_sample_images

        return list(load_sample_images().images)
    except ImportError as error:  # Pillow, which decodes them, is asked for in the same way
        raise DataError(
            f"the patches need the photographs inside scikit-learn, and Pillow to decode them ({error.name or error}"
            " is missing); run: pip install scikit-learn pillow"
        ) from None


def _grey(image: Any) -> Tensor:
    return torch.from_numpy(np.asarray(image) @ np.array(LUMINANCE) / 255)


def _draw(image: Tensor, count: int, generator: torch.Generator) -> Rows:
    """`count` patches of one image (height, width) at distinct places, as rows."""
    places = image.unfold(0, SIZE, 1).unfold(1, SIZE, 1)  # (height - 7, width - 7, 8, 8), a view
    chosen = torch.randperm(places.shape[0] * places.shape[1], generator=generator)[:count]
    return places[chosen // places.shape[1], chosen % places.shape[1]].flatten(1)
