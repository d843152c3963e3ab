"""orthonormal.cu against plain PyTorch, run on a CPU lane by lane (see emulate.h)."""

import pytest
import torch
from emulation import emulated_gram_schmidt

from sureprox.kernels.lipschitz.gpu_orthonormal import launched
from sureprox.problems import spectrum
from sureprox.problems.spectrum import largest_eigenvalue, orthonormal


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    return emulated_gram_schmidt(tmp_path_factory.mktemp("kernel"))


def basis(batch: int, size: int, known: int) -> torch.Tensor:
    """`known` orthonormal columns."""
    generator = torch.Generator().manual_seed(size)
    return torch.linalg.qr(torch.randn(batch, size, known, generator=generator))[0]


@pytest.mark.parametrize(
    ("size", "count", "known"), [(250, 4, 0), (250, 4, 60), (600, 4, 60), (37, 4, 8), (3, 3, 0), (9, 1, 4)]
)
def test_emulated_kernel_is_gram_schmidt(kernel, size, count, known):
    block = torch.randn(2, size, count, generator=torch.Generator().manual_seed(1))
    earlier = basis(2, size, known)
    ours, exact = launched(kernel, block, earlier), orthonormal(block.double(), earlier.double())
    torch.testing.assert_close(ours.double(), exact, rtol=0, atol=2e-5)
    eye = torch.eye(count).expand(2, -1, -1)
    torch.testing.assert_close(ours.mT @ ours, eye, rtol=0, atol=1e-6)
    if known:
        assert float((earlier.mT @ ours).abs().max()) < 1e-6


def test_emulated_kernel_drops_what_is_spanned_already(kernel):
    earlier = basis(1, 20, 4)
    block = torch.randn(1, 20, 4, generator=torch.Generator().manual_seed(2))
    block[:, :, 1] = earlier @ torch.ones(4)
    block[:, :, 3] = 2 * block[:, :, 0] - block[:, :, 2]
    ours = launched(kernel, block, earlier)
    lengths = torch.linalg.vector_norm(ours, dim=1)[0]
    torch.testing.assert_close(lengths, torch.tensor([1.0, 0.0, 1.0, 0.0]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 20, 60), (1, 90, 40), (2, 3, 5)])
def test_the_estimate_of_the_largest_eigenvalue_is_the_same(kernel, monkeypatch, shape):
    A = torch.randn(*shape, generator=torch.Generator().manual_seed(3))
    plain = largest_eigenvalue(A)
    monkeypatch.setattr(spectrum, "orthonormal", lambda block, earlier: launched(kernel, block, earlier))
    torch.testing.assert_close(largest_eigenvalue(A), plain, rtol=2e-6, atol=0)
