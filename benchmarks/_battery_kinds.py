"""The kinds of the second battery: every loss, penalty and sort of operator, and data of the world.

`Kind.trained` says whether the mixture that the general Sure was trained on (`GeneralMixture`) holds the like: squares,
logistic or Huber losses with l1, l2 and bounds on random dense designs, of other sizes, seeds and ranges.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from sureprox.evaluation.battery_forms import FORM_KINDS, FORMS
from sureprox.evaluation.battery_kinds import KINDS, Draw, Kind
from sureprox.problems import Huber, LeastSquares, Logistic, Problem, Softmax, SquaredHinge
from sureprox.problems.operators import Compose, Convolution, Haar, MaskedFourier, Sparse
from sureprox.problems.penalties import L1, ElasticNet, NonNegative, Separable
from sureprox.sources import designs as make

from _form_samplers import F64, MORE, Chance, clean, matrix, noisy, share

ZERO_START = (  # of the first battery, from zero
    *("lasso", "lasso-lam-0.01", "lasso-lam-0.2", "lasso-noise", "lasso-ar-0.9", "lasso-ar-0.99"),
    *("lasso-heavy-tails", "lasso-column-norms", "lasso-64x128", "lasso-500x2000", "lasso-2000x500"),
    *("lasso-dense", "lasso-sparse", "patches", "diabetes"),
    *("logistic", "logistic-lam-0.01", "logistic-lam-0.1", "logistic-ar-0.9", "logistic-imbalanced"),
    *("logistic-separable", "ionosphere", "spambase", "breast-cancer"),
)
MOVED = (  # the starts of the paper, N(0, 1), and moved ones
    *("lasso", "lasso-start+10", "lasso-start-10", "lasso-start+100", "lasso-start-100", "lasso-start+1000"),
    *("logistic", "logistic-start+10", "logistic-start-10", "logistic-start+100"),
)
ALIKE = (  # kinds that are in the mixture, up to sizes, seeds and ranges
    *("lasso", "lasso-lam-0.01", "lasso-lam-0.2", "lasso-noise", "lasso-ar-0.9", "lasso-column-norms"),
    *("lasso-64x128", "lasso-500x2000", "lasso-2000x500", "lasso-dense", "lasso-sparse"),
    *("logistic", "logistic-lam-0.01", "logistic-lam-0.1", "logistic-ar-0.9", "logistic-imbalanced"),
    *("logistic-separable", "elastic-net", "elastic-net-little-l2", "nonnegative", "nonnegative-lasso"),
    *("box", "box-tight", "huber", "huber-small-delta", "separable-mixture", "weighted-l1", "ridge"),
    *("nnls-correlated", "logistic-l2", "logistic-elastic-net", "logistic-box", "huber-nonnegative"),
    *("huber-ridge-correlated",),
)
AT_ONCE = (  # least squares with a dense A and more than l1, which `solve` does on working sets on a CPU
    *("elastic-net", "elastic-net-little-l2", "nonnegative", "nonnegative-lasso", "box", "box-tight"),
    *("separable-mixture", "weighted-l1", "ridge", "nnls-correlated", "tv-synthesis", "tv-dual", "digits-coding"),
)
LARGE = {"lasso-500x2000": 4, "lasso-2000x500": 4, "spambase": 4, "digits-softmax": 4}  # most instances


def _sparse(chance: Chance, m: int, n: int, each: int) -> Sparse:
    """`each` normal entries in a column."""
    rows = make.uniform(chance, n, m).argsort(1)[:, :each].reshape(-1)
    places = torch.stack([rows, torch.arange(n).repeat_interleave(each)])
    values = make.normal(chance, n * each) / each**0.5
    return Sparse(torch.sparse_coo_tensor(places, values, (m, n), check_invariants=False))


def _sparse_logistic(chance: Chance, count: int) -> Problem:
    A = _sparse(chance, 600, 400, 12)
    z = A.forward(make.sparse_signal(chance, count, 400, 20))
    f = Logistic(A, (make.uniform(chance, *z.shape) < torch.sigmoid(4 * z)).double())
    return Problem(f, L1(share(f, 0.02)))


def _sparse_huber(chance: Chance, count: int) -> Problem:
    A = _sparse(chance, 400, 300, 10)
    f = Huber(A, noisy(chance, A.forward(make.sparse_signal(chance, count, 300, 30)), 0.5), 0.2)
    return Problem(f, ElasticNet(share(f, 0.02), 1e-3 * f.lipschitz()))


def _huber_ridge(chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 200, 80, 0.9)
    f = Huber(A, noisy(chance, clean(chance, A, 80), 0.5), 0.2)
    return Problem(f, Separable(l2=1e-4 * f.lipschitz()))


def _fourier(chance: Chance, count: int) -> Problem:
    """Spikes from 15 % of their Fourier coefficients."""
    A = MaskedFourier(make.uniform(chance, 512) < 0.15)
    f = LeastSquares(A, noisy(chance, A.forward(make.sparse_signal(chance, count, 512, 20))))
    return Problem(f, L1(share(f, 0.02)))


def _photographs(chance: Chance, count: int, side: int) -> Tensor:
    """(count, side^2): squares of the photographs inside scikit-learn, grey, each less its mean."""
    from sklearn.datasets import load_sample_images

    images = [torch.from_numpy(image.mean(2)[::2, ::2]).double() / 255 for image in load_sample_images().images]
    found = []
    for i, (row, column) in enumerate(make.uniform(chance, count, 2).tolist()):
        image = images[i % len(images)]
        top, left = int(row * (image.shape[0] - side)), int(column * (image.shape[1] - side))
        found.append(image[top : top + side, left : left + side].flatten())
    pixels = torch.stack(found)
    return pixels - pixels.mean(1, keepdim=True)


def _inpainting(chance: Chance, count: int) -> Problem:
    """Photographs of which half of the pixels are missing, sparse in Haar's basis."""
    side = 32
    kept = torch.nonzero(make.uniform(chance, side * side) < 0.5)[:, 0]
    places = torch.stack([torch.arange(len(kept)), kept])
    mask = Sparse(
        torch.sparse_coo_tensor(
            places, torch.ones(len(kept), dtype=F64), (len(kept), side * side), check_invariants=False
        )
    )
    A = Compose(mask, Haar((side, side)).T)
    f = LeastSquares(A, mask.forward(_photographs(chance, count, side)))
    return Problem(f, L1(share(f, 0.01)))


def _blurred_counts(chance: Chance, count: int) -> Problem:
    """A blurred image without negative pixels."""
    place = torch.arange(-2, 3, dtype=F64)
    kernel = torch.exp(-(place**2) / 2)
    blur = Convolution(torch.outer(kernel, kernel) / kernel.sum() ** 2, (32, 32))
    clean_image = blur.forward(make.sparse_signal(chance, count, 1024, 100).abs())
    return Problem(LeastSquares(blur, noisy(chance, clean_image, 0.02)), NonNegative(0.002))


def _digits_softmax(chance: Chance, count: int) -> Problem:
    """600 digits of scikit-learn, ten classes, several sizes of l1."""
    images, target = _digits()
    seen = images.std(0) > 0
    A = ((images - images.mean(0)) / images.std(0).clamp(min=1e-12))[:600, seen].contiguous()
    f = Softmax(A, target[:600].double().expand(count, -1), 10)
    return Problem(f, L1(10 ** (-2.0 + 1.5 * make.uniform(chance, count)) * share(f, 1.0)))


def _digits_coding(chance: Chance, count: int) -> Problem:
    """Digits as nonnegative sums of 128 other ones."""
    images, _ = _digits()
    A = (images[:128] / torch.linalg.vector_norm(images[:128], dim=1, keepdim=True)).T.contiguous()
    f = LeastSquares(A, images[128 + (make.uniform(chance, count) * 1600).long()])
    return Problem(f, NonNegative(share(f, 0.05)))


def _digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    images, target = load_digits(return_X_y=True)
    return torch.from_numpy(images), torch.from_numpy(target)


def _support_vectors(chance: Chance, count: int) -> Problem:
    """Breast cancer by the squared hinge, several sizes of l2."""
    f = KINDS["breast-cancer"].sample(count, chance).problem.f
    assert isinstance(f, Logistic)
    hinge = SquaredHinge(f.A, f.y)
    return Problem(hinge, Separable(l2=10 ** (-5.0 + 3 * make.uniform(chance, count)) * hinge.lipschitz()))


def _robust_diabetes(chance: Chance, count: int) -> Problem:
    """Huber's loss on the diabetes data with all products of two features."""
    squares = KINDS["diabetes"].sample(count, chance).problem.f
    assert isinstance(squares, LeastSquares)
    f = Huber(squares.A, squares.b, float(squares.b.abs().mean()))
    return Problem(f, L1(10 ** (-2.0 + 1.5 * make.uniform(chance, count)) * share(f, 1.0)))


NEW: dict[str, Callable[[Chance, int], Problem]] = {
    "sparse-logistic": _sparse_logistic,
    "sparse-huber": _sparse_huber,
    "huber-ridge-correlated": _huber_ridge,
    "fourier": _fourier,
    "inpainting": _inpainting,
    "deblurring-nonnegative": _blurred_counts,
    "digits-softmax": _digits_softmax,
    "digits-coding": _digits_coding,
    "breast-cancer-hinge": _support_vectors,
    "diabetes-huber": _robust_diabetes,
}


def _from_zero(kind: Kind, count: int, chance: Chance) -> Draw:
    drawn = kind.sample(count, chance)
    return drawn._replace(start=torch.zeros_like(drawn.start))


def _made(name: str, sample: Callable[[Chance, int], Problem], count: int, chance: Chance) -> Draw:
    problem = sample(chance, count)
    return Draw(problem, torch.zeros(problem.batch, problem.n, dtype=F64), f"benchmarks/_battery_kinds.py: {name}")


def _headline() -> dict[str, Kind]:
    before = [KINDS[name] for name in ZERO_START] + list(FORM_KINDS.values())
    made = {
        kind.name: replace(
            kind, sample=partial(_from_zero, kind), largest=LARGE.get(kind.name, kind.largest), trained=False
        )
        for kind in before
    } | {
        name: Kind(name, FORMS, False, partial(_made, name, sample), LARGE.get(name, 1024))
        for name, sample in (MORE | NEW).items()
    }
    return {name: replace(kind, trained=name in ALIKE) for name, kind in made.items()}


FROM_ZERO = _headline()
MOVED_STARTS = {f"{name}, its start": replace(KINDS[name], name=f"{name}-moved", trained=True) for name in MOVED}
