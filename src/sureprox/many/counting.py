"""How many bytes of tensors are alive at once while something runs."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class TensorBytes(TorchDispatchMode):
    """Counts the storages that the operations inside it make, on any device: `now` alive, `peak` the most ever."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled, and PyTorch need not load its compiler, which takes seconds, to leave it out."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for leaf in tree_leaves((args, kwargs)):  # what was there before is not counted, nor are views of it
            if _has_storage(leaf):
                self._known.add(leaf.untyped_storage())
        made = func(*args, **kwargs)
        for leaf in tree_leaves(made):
            if _has_storage(leaf) and leaf.untyped_storage() not in self._known:
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        self._known.add(storage)
        size = storage.nbytes()
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, size)

    def _freed(self, size: int) -> None:
        self.now -= size


def _has_storage(leaf: Any) -> bool:
    """A sparse tensor has none of its own: it is made of dense ones, which are counted by themselves."""
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided
