"""What every problem checks about the tensors it is given; each failure is one line that says what to do."""

import sys
from numbers import Real
from operator import index as operator_index
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from sureprox.base.errors import InputError
from sureprox.problems.operators.base import Operator

FLOATS = (torch.float32, torch.float64)
MOST_CLASSES = 2**20  # that labels alone may ask for, so that a number in the wrong place does not take all memory
_trusted = WeakIdKeyDictionary()  # the version of each tensor at which it was found to be fine


def as_tensor(name: str, value: Any, like: Tensor | None = None) -> Tensor:
    """`value` (tensor, array, table or nested list) as a dense tensor of float32 or float64.

    Floats of these two types stay what they are. Lists, integers and booleans become what `like` is, or float64;
    shorter floats become float32, longer ones float64.
    """
    require_unmasked(name, value)
    device = None if like is None else like.device
    plain = value if isinstance(value, Tensor) else as_array(value)
    try:
        if isinstance(plain, Tensor):
            tensor = plain
        else:
            if plain.dtype.kind == "f" and plain.dtype.itemsize > 8:
                plain = plain.astype(np.float64)
            # a copy: the caller may reuse the array, and torch knows only the native byte order
            tensor = torch.from_numpy(np.array(plain, dtype=plain.dtype.newbyteorder("="))).to(device)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(value).__name__
        if isinstance(value, np.ndarray):
            kind += f" of {value.dtype}"
        elif text := [str(name) for name, kind in getattr(value, "dtypes", {}).items() if kind.kind not in "biuf"]:
            kind += f" with {text[0][:60]!r}, a column"
        raise InputError(
            f"{name} is a {kind} that torch cannot read as numbers; pass a torch tensor or a numpy array of floats"
        ) from error
    require_dense(name, tensor)
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    untyped = not isinstance(value, Tensor | np.ndarray | np.generic) and not hasattr(value, "__array__")
    if (untyped and like is not None) or not (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.to(torch.float64 if like is None else like.dtype)
    require_float(name, tensor)
    return tensor


def as_array(value: Any) -> npt.NDArray[Any]:
    """An array, a DataFrame or Series, or nested lists as a numpy array, of objects where it holds other things."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return np.array(None, dtype=object)


def require_dense(name: str, tensor: Tensor) -> None:
    if tensor.layout is not torch.strided:
        raise InputError(f"{name} has layout {tensor.layout}; pass a dense tensor, for example {name}.to_dense()")


def require_float(name: str, tensor: Tensor) -> None:
    if tensor.dtype not in FLOATS:
        raise InputError(
            f"{name} has dtype {tensor.dtype}; pass float32 or float64, for example {name}.to(torch.float64)"
        )


def numbers(name: str, value: Any, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """`value`, a number or any array of numbers, converted to this dtype and device."""
    require_unmasked(name, value)
    if hasattr(value, "__array__") and not isinstance(value, Tensor):
        value = as_array(value).copy()  # also of a table's column, which may be read-only
    try:
        tensor = torch.as_tensor(value, dtype=dtype, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} is a {type(value).__name__} that torch cannot read as numbers; pass a number or a tensor"
        ) from error
    require_dense(name, tensor)
    return tensor


def real(name: str, value: Any) -> Tensor:
    """`value` as floats: a tensor of floats unchanged, anything else in float64."""
    tensor = value if isinstance(value, Tensor) else numbers(name, value, torch.float64)
    require_dense(name, tensor)
    if tensor.is_complex():
        raise InputError(f"{name} has dtype {tensor.dtype}; pass real numbers")
    return tensor if tensor.is_floating_point() else tensor.double()


def require_unmasked(name: str, value: Any) -> None:
    """torch and numpy would read the numbers behind a mask."""
    if "numpy.ma" in sys.modules and np.ma.is_masked(value):  # else there are none, and it need not be imported
        count = int(np.ma.count_masked(value))
        raise InputError(f"{name} has {count} masked entries; fill them, or leave out what they belong to")


def require_same_kind(name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    if tensor.dtype != like.dtype:
        raise InputError(
            f"{name} has dtype {tensor.dtype} but {like_name} has {like.dtype}; convert one: {name}.to({like.dtype})"
        )
    if tensor.device != like.device:
        raise InputError(
            f"{name} is on {tensor.device} but {like_name} is on {like.device}; move one: {name}.to('{like.device}')"
        )


def trusted(tensor: Tensor, everywhere: bool = False) -> Tensor:
    """The same tensor, known to be fine: until it is written to, `require_finite` and the like skip it.

    On a GPU only, unless `everywhere`: there a check would wait for all queued work.
    """
    if (everywhere or tensor.device.type == "cuda") and not tensor.is_inference():
        _trusted[tensor] = tensor._version
    return tensor


def is_trusted(tensor: Tensor) -> bool:
    version = _trusted.get(tensor)
    return version is not None and version == tensor._version


def require_finite(name: str, tensor: Tensor) -> None:
    if is_trusted(tensor):
        return
    if tensor.device.type == "meta":
        raise InputError(f"{name} is on the device 'meta', which holds no data; move it to the device of the others")
    if _has_finite_ends(tensor.detach()):
        return
    bad = ~torch.isfinite(tensor.detach())
    count = int(bad.sum())
    if count:
        first = tuple(int(i) for i in bad.nonzero()[0])
        raise InputError(
            f"{name} has {count} entries that are NaN or infinite, the first at index {first}; clean the data"
        )


def _has_finite_ends(tensor: Tensor) -> bool:
    """Whether the smallest and the largest entry are finite, so that all are: 20 times quicker than asking each.

    NaN comes out as both ends. False where this is not known.
    """
    if tensor.dtype not in (torch.float32, torch.float64) or tensor.layout != torch.strided or not tensor.numel():
        return False
    return bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all())


def matrix(A: Any) -> Tensor | Operator:
    """A of shape (B, m, n), or (m, n) for one matrix shared by the batch: a dense tensor, or an operator.

    Dense arrays become tensors, sparse tensors and matrices a `Sparse`; a `Dense` is the tensor that it holds.
    """
    from sureprox.problems.operators.dense import Dense  # these check their own input by this module
    from sureprox.problems.operators.sparse import Sparse, is_sparse

    if isinstance(A, Dense) and A.copies == 1:
        return A.A
    if isinstance(A, Operator):
        return A
    if is_sparse(A):
        return Sparse(A)
    if hasattr(A, "matvec") and hasattr(A, "rmatvec"):
        raise InputError(
            f"A is a {type(A).__name__}; pass sureprox.operators.Function(apply, adjoint, shape), made of its products"
        )
    tensor = as_tensor("A", A)
    if tensor.ndim not in (2, 3):
        raise InputError(
            f"A has shape {tuple(tensor.shape)}; pass (B, m, n), or (m, n) for one A shared by the whole batch"
        )
    if 0 in tensor.shape:
        raise InputError(f"A has shape {tuple(tensor.shape)}: it is empty; pass at least one instance, row and column")
    require_finite("A", tensor)
    return _in_one_piece(tensor)


def _in_one_piece(A: Tensor) -> Tensor:
    """A itself, or, if it lies column by column or has gaps, a copy row by row: kernels read rows.

    One that is repeated without a copy (`expand`), or needs gradients, stays as it is.
    """
    repeated = any(step == 0 and size > 1 for step, size in zip(A.stride(), A.shape, strict=True))
    return A if repeated or A.requires_grad else A.contiguous()


def operator(A: Any) -> Operator:
    """`matrix` as an operator."""
    from sureprox.problems.operators.dense import Dense

    checked = matrix(A)
    return checked if isinstance(checked, Operator) else Dense.of(checked)


def _kind(A: Tensor | Operator) -> tuple[Tensor | None, int | None]:
    """A tensor of the dtype and on the device of A, and the number of its instances; None for any."""
    if isinstance(A, Tensor):
        return A, A.shape[0] if A.ndim == 3 else None
    return A.like, A.batch


def rows(name: str, value: Any, A: Tensor | Operator) -> Tensor:
    """The right-hand side (B, m); (m,) is the same right-hand side for every instance."""
    like, batch = _kind(A)
    tensor = as_tensor(name, value, like=torch.empty(0) if like is None else like)
    if like is not None:
        require_same_kind(name, tensor, "A", like)
    m = A.shape[-2]
    wanted = f"(B, {m}) or ({m},)" if batch is None else f"({batch}, {m})"
    if tensor.ndim not in (1, 2) or tensor.shape[-1] != m:
        turned = tensor.ndim == 2 and tensor.shape[0] == m
        hint = f"; it looks transposed: pass {name}.T, a row for each problem" if turned else ""
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; A of shape {tuple(A.shape)} needs {wanted}{hint}")
    if tensor.ndim == 1:
        tensor = tensor.unsqueeze(0).expand(batch or 1, m)
    if tensor.shape[0] == 0:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}: the batch is empty; pass at least one instance")
    if batch is not None and tensor.shape[0] != batch:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; A of shape {tuple(A.shape)} needs {wanted}")
    require_finite(name, tensor)
    return tensor


def labels(y: Any, A: Tensor | Operator) -> Tensor:
    """Labels in {0, 1}, of any type; integers and booleans become floats."""
    tensor = _whole_numbers(y, A)
    wrong = (tensor != 0) & (tensor != 1)
    if bool(wrong.any()):
        value = float(tensor.detach()[wrong][0])
        raise InputError(f"y holds {value:g}; labels must be 0 or 1 (from labels -1 and 1, pass (y + 1) / 2)")
    return tensor


def counts(y: Any, A: Tensor | Operator) -> Tensor:
    """Counts >= 0, of any type; averages of counts need not be whole."""
    tensor = _whole_numbers(y, A)
    if bool((tensor < 0).any()):
        raise InputError(f"y holds {float(tensor.detach().min()):g}; counts must be >= 0")
    return tensor


def classes(y: Any, count: int | None, A: Tensor | Operator) -> tuple[Tensor, int]:
    """Labels in 0, ..., k - 1, and k: `count`, or the largest label plus one."""
    tensor = _whole_numbers(y, A)
    wrong = (tensor < 0) | (tensor != tensor.round())
    if bool(wrong.any()):
        value = float(tensor.detach()[wrong][0])
        raise InputError(f"y holds {value:g}; labels of k classes must be 0, 1, ..., k - 1")
    highest = int(tensor.max())
    if count is None and highest >= MOST_CLASSES:
        raise InputError(f"y holds {highest}; number the classes 0, 1, ..., k - 1, or pass classes")
    if count is None:
        count = max(highest + 1, 2)
    try:  # also a whole number of numpy or torch, as from y.max() + 1
        whole = 0 if isinstance(count, bool) else operator_index(count)
    except TypeError:
        whole = 0
    if whole < 2:
        raise InputError(f"classes is {count!r}; pass a whole number >= 2, or leave it out")
    if highest >= whole:
        raise InputError(f"y holds {highest}; labels of {whole} classes must be at most {whole - 1}")
    return tensor, whole


def _whole_numbers(y: Any, A: Tensor | Operator) -> Tensor:
    """y as floats (B, m); integers and booleans are converted."""
    require_unmasked("y", y)
    found = _kind(A)[0]
    like = torch.empty(0) if found is None else found
    if isinstance(y, np.ndarray) and y.dtype.kind in "biu":
        y = torch.from_numpy(y.astype(np.int64)).to(like.device)
    if isinstance(y, list | tuple):
        y = as_tensor("y", y, like=like)
    if isinstance(y, Tensor) and not y.is_floating_point() and not y.is_complex():
        y = y.to(like.dtype)
    return rows("y", y, A)


def positive(name: str, value: Any, meaning: str) -> float:
    """A finite number > 0."""
    number = float(value) if not isinstance(value, bool) and isinstance(value, Real) else -1.0
    if 0 < number < float("inf"):
        return number
    raise InputError(f"{name} is {value!r}; pass a number > 0: {meaning}")


def weight(lam: Any, batch: int, like: Tensor, name: str = "lam") -> Tensor:
    """A weight >= 0 as a (B,) tensor from a number or one value per instance."""
    if isinstance(lam, Tensor) and lam.ndim > 0:
        tensor = as_tensor(name, lam)
        require_same_kind(name, tensor, "A", like)
    else:
        tensor = numbers(name, lam, like.dtype, like.device)
    if tensor.ndim == 0:
        tensor = tensor.expand(batch)
    if tensor.shape != (batch,):
        raise InputError(
            f"{name} has shape {tuple(tensor.shape)}; a batch of {batch} needs a number or shape ({batch},)"
        )
    require_finite(name, tensor)
    if bool((tensor < 0).any()):
        raise InputError(f"{name} is {float(tensor.detach().min()):g} for some instance; it must be >= 0")
    return tensor


def row_weights(weights: Any, like: Tensor, A: Tensor | Operator) -> Tensor:
    """Weights >= 0 of the rows of A, as (B, m): `like` is the right-hand side (B, m)."""
    tensor = rows("weights", weights, A)
    _require_batch("weights", tensor, like)
    if bool((tensor < 0).any()):
        raise InputError(f"weights is {float(tensor.detach().min()):g} somewhere; it must be >= 0")
    if not bool((tensor > 0).any(1).all()):
        raise InputError("weights is zero for every row of some instance; give at least one row a positive weight")
    return tensor.expand_as(like)


def offset(value: Any, like: Tensor, A: Tensor | Operator) -> Tensor:
    """What is added to A x, as (B, m): `like` is the right-hand side (B, m)."""
    tensor = rows("offset", value, A)
    _require_batch("offset", tensor, like)
    return tensor.expand_as(like)


def _require_batch(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.shape[0] not in (1, like.shape[0]):
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; this problem needs {tuple(like.shape)}")
