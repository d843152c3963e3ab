"""K-SVD and its sparse coding: against scikit-learn and plain loops, and the promises that hold for any data."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import orthogonal_mp

from helpers import F64, normal, refused
from sureprox.sources import ksvd as module
from sureprox.sources.ksvd import KSVD, ksvd
from sureprox.sources.omp import _outside, omp


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit_columns(m: int, atoms: int, seed: int = 0) -> torch.Tensor:
    D = normal(m, atoms, seed=seed)
    return D / D.norm(dim=0)


def sparse_signals(count: int, m: int, atoms: int, nonzeros: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Signals with exactly `nonzeros` atoms of a random dictionary, and that dictionary."""
    D = unit_columns(m, atoms, seed)
    keep = torch.rand(count, atoms, generator=seeded(seed)).argsort(1).argsort(1) < nonzeros
    return (normal(count, atoms, seed=seed + 1) * keep) @ D.T, D


@st.composite
def data(draw) -> tuple[torch.Tensor, int, int, int]:
    """Signals with zero rows, repeated rows and low rank; fewer or more of them than atoms; any scale."""
    count, m = draw(st.integers(1, 20)), draw(st.integers(1, 6))
    atoms = draw(st.integers(1, 12))
    nonzeros = draw(st.integers(1, min(m, atoms)))
    rank = draw(st.integers(1, m))
    seed = draw(st.integers(0, 1000))
    Y = normal(count, rank, seed=seed) @ normal(rank, m, seed=seed + 1)
    if draw(st.booleans()):
        Y = Y.round()  # exact ties and repetitions
    Y = Y[torch.tensor(draw(st.lists(st.integers(0, count - 1), min_size=count, max_size=count)))]
    Y[torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count)))] = 0.0
    return Y * 10.0 ** draw(st.sampled_from([-300, -5, 0, 5, 300])), atoms, nonzeros, seed


@given(data())
def test_promises_hold_for_any_data(drawn):
    Y, atoms, nonzeros, seed = drawn
    found = ksvd(Y, atoms, nonzeros, 6, generator=seeded(seed))
    assert found.dictionary.shape == (Y.shape[1], atoms)
    assert found.codes.shape == (len(Y), atoms)
    assert found.errors.shape == (7,)
    assert found.errors.isfinite().all()
    assert (found.errors.diff() <= 0).all()  # never increases, to the last bit
    assert (found.dictionary.norm(dim=0) - 1).abs().max() <= 1e-12
    assert ((found.codes != 0).sum(1) <= nonzeros).all()
    assert (found.codes[(Y == 0).all(1)] == 0).all()
    scale = float(Y.abs().max()) or 1.0
    size = float((Y / scale).norm())
    error = float((Y / scale - (found.codes / scale) @ found.dictionary.T).norm())
    assert abs(float(found.errors[-1] / scale) - error) <= 1e-14 * size
    assert error <= size * (1 + 1e-14)


@given(data())
def test_the_generator_decides_everything(drawn):
    Y, atoms, nonzeros, seed = drawn
    torch.manual_seed(1)
    first = ksvd(Y, atoms, nonzeros, 3, generator=seeded(seed))
    torch.manual_seed(2)
    again = ksvd(Y, atoms, nonzeros, 3, generator=seeded(seed))
    for name in ("dictionary", "codes", "errors"):
        assert torch.equal(getattr(first, name), getattr(again, name))


def test_another_seed_gives_another_dictionary():
    Y = normal(50, 8)
    one, other = (ksvd(Y, 12, 2, 2, generator=seeded(seed)).dictionary for seed in (0, 1))
    assert (one - other).abs().max() > 0.1


@pytest.mark.parametrize("nonzeros", [1, 3, 7])
def test_omp_agrees_with_scikit_learn(nonzeros):
    D, Y = unit_columns(10, 25), normal(40, 10, seed=5)
    theirs = orthogonal_mp(D.numpy(), Y.T.numpy(), n_nonzero_coefs=nonzeros).T
    torch.testing.assert_close(omp(Y, D, nonzeros), torch.from_numpy(theirs.copy()), rtol=1e-10, atol=1e-12)


def test_omp_in_an_orthonormal_dictionary_keeps_the_largest_coefficients():
    Q = torch.linalg.qr(normal(9, 9)).Q
    Y = normal(30, 9, seed=3)
    exact = Y @ Q
    largest = exact.abs() >= exact.abs().sort(1, descending=True).values[:, 3:4]
    torch.testing.assert_close(omp(Y, Q, 4), exact * largest, rtol=1e-12, atol=1e-13)


def test_omp_stops_at_zero_residual_and_survives_repeated_atoms():
    D = unit_columns(6, 3).repeat(1, 2)  # every atom twice
    Y = torch.cat([2.5 * D[:, :1].T, torch.zeros(1, 6, dtype=F64), normal(5, 6)])
    codes = omp(Y, D, 6)
    assert codes[0].tolist() == pytest.approx([2.5, 0, 0, 0, 0, 0], abs=1e-15)
    assert (codes[1] == 0).all()
    fit = torch.linalg.lstsq(D[:, :3], Y.T).solution
    torch.testing.assert_close(codes @ D.T, (D[:, :3] @ fit).T, rtol=1e-10, atol=1e-12)
    assert codes.abs().max() < 100  # no huge coefficients that cancel


def test_omp_treats_every_signal_alone():
    D, Y = unit_columns(10, 25), normal(8, 10, seed=5)
    together = omp(Y * 10.0 ** torch.arange(-280, 281, 80, dtype=F64).unsqueeze(1), D, 3)
    for i, exponent in enumerate(range(-280, 281, 80)):
        alone = omp(Y[i : i + 1], D, 3)[0]
        torch.testing.assert_close(together[i] * 10.0**-exponent, alone, rtol=1e-12, atol=1e-13)


def test_nearly_dependent_atoms_are_orthogonalised_to_rounding():
    Q = torch.linalg.qr(normal(8, 12, 5)).Q.mT.contiguous()
    atoms = Q[:, 2] + 1e-6 * normal(8, 12, seed=1)
    rest, along = _outside(atoms, Q)
    assert (torch.bmm(Q, rest.unsqueeze(2)).squeeze(2).norm(dim=1) <= 1e-15 * rest.norm(dim=1)).all()
    torch.testing.assert_close(torch.bmm(Q.mT, along.unsqueeze(2)).squeeze(2) + rest, atoms, rtol=0, atol=1e-15)


def test_atoms_are_improved_one_after_the_other_by_one_power_step():
    """Against the formula written out with the full error matrix, atom by atom."""
    Y = normal(30, 7)
    D = unit_columns(7, 10, seed=4)
    X = omp(Y, D, 3)
    ours, our_codes = module._improve_atoms(Y, D, X)
    theirs, codes = D.clone(), X.clone()
    for j in range(10):
        users = [i for i in range(30) if X[i, j] != 0]
        others = [k for k in range(10) if k != j]
        E = Y[users] - codes[users][:, others] @ theirs[:, others].T
        d = E.T @ codes[users, j]
        theirs[:, j] = d / d.norm()
        codes[users, j] = E @ theirs[:, j]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(our_codes, codes, rtol=1e-12, atol=1e-13)
    assert (Y - codes @ theirs.T).norm() < (Y - X @ D.T).norm()


def test_a_signal_keeps_its_code_where_pursuit_is_worse():
    """Greedy choice falls for the atom halfway between the two that represent the signal exactly."""
    D = torch.tensor([[1.0, 0.0, 0.7], [0.0, 1.0, 0.7], [0.0, 0.0, (1 - 0.98) ** 0.5]], dtype=F64)
    Y = torch.tensor([[1.0, 1.0, 0.0], [0.0, 3.0, 0.0]], dtype=F64)
    exact = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=F64)
    assert omp(Y, D, 2)[0, 2] != 0
    kept = module._recode(Y, D, exact, 2)
    assert torch.equal(kept[0], exact[0])
    assert kept[1].tolist() == pytest.approx([0, 3, 0])


def test_unused_and_repeated_atoms_become_the_worst_represented_signals():
    Y = normal(60, 8, seed=7)
    D = unit_columns(8, 9)
    close = D[:, 1] + 1e-3 * normal(8, seed=11)
    D[:, 5] = -close / close.norm()
    X = omp(Y, D[:, :8], 2)
    half = X[:, 1].clone()
    half[::2] = 0.0
    X[:, 1] -= half
    X[:, 5] -= half  # some signals use the repetition, with the other sign
    X = torch.cat([X, torch.zeros(60, 1, dtype=F64)], 1)  # and nobody uses atom 8
    before = module._squared_errors(Y, D, X)
    new, codes = module._replace_idle(Y, D, X)
    after = module._squared_errors(Y, new, codes)
    assert after.sum() < before.sum()
    assert ((codes != 0).sum(1) <= 2).all()
    cosines = (new.T @ new).fill_diagonal_(0).abs()
    assert cosines.max() < module.DUPLICATE
    for j in range(9):
        signal = Y[codes[:, j].abs().argmax()]
        moved = not torch.equal(new[:, j], D[:, j])
        assert moved == (j in (5, 8))
        if moved:
            torch.testing.assert_close(new[:, j], signal / signal.norm(), rtol=1e-14, atol=1e-15)


def test_atoms_that_start_alike_part():
    """Most signals are equal, so the initial atoms are; three directions need all three atoms."""
    Y = torch.eye(3, dtype=F64)[[0] * 50 + [1, 2]]
    found = ksvd(Y, 3, 1, 1, generator=seeded())
    assert found.errors[0] > 0.9
    assert found.errors[1] == 0
    assert torch.equal(found.dictionary.abs().sort(1).values, torch.eye(3, dtype=F64).sort(1).values)


def test_a_repetition_that_is_needed_stays():
    """Two atoms 6 degrees apart, each of which represents its signals exactly: giving one up would cost more."""
    D = torch.tensor([[1.0, 0.995], [0.0, (1 - 0.995**2) ** 0.5]], dtype=F64)
    X = torch.eye(2, dtype=F64).repeat(5, 1)
    Y = X @ D.T
    new, codes = module._replace_idle(Y, D, X)
    assert torch.equal(new, D)
    assert torch.equal(codes, X)


def test_a_planted_dictionary_is_found():
    Y, truth = sparse_signals(count=1000, m=16, atoms=24, nonzeros=2, seed=0)
    found = ksvd(Y, 24, 2, 40, generator=seeded())
    best = (truth.T @ found.dictionary).abs().amax(1)
    assert (best > 0.99).double().mean() >= 0.9
    assert found.errors[-1] < 0.35 * found.errors[0]


@pytest.mark.parametrize("shape", [(1, 5), (7, 1), (3, 64)])
def test_zero_signals_have_a_dictionary_of_unit_atoms(shape):
    found = ksvd(torch.zeros(shape, dtype=F64), 10, 1, 3, generator=seeded())
    assert (found.dictionary.norm(dim=0) - 1).abs().max() <= 1e-12
    assert found.errors.tolist() == [0.0] * 4
    assert (found.codes == 0).all()


def test_as_many_atoms_as_signals_represent_them_exactly():
    found = ksvd(normal(6, 9), 8, 1, 2, generator=seeded())
    assert found.errors[-1] <= 1e-14 * normal(6, 9).norm()


def test_numpy_and_float32_are_taken_and_the_input_is_left_alone():
    Y = normal(20, 5).float()
    kept = Y.clone()
    one = ksvd(Y, 6, 2, 2, generator=seeded())
    other = ksvd(Y.numpy().astype(np.float64), 6, 2, 2, generator=seeded())
    assert isinstance(one, KSVD)
    assert one.dictionary.dtype == F64
    assert torch.equal(one.dictionary, other.dictionary)
    assert torch.equal(Y, kept)


def test_no_iterations_means_the_initial_dictionary():
    Y = normal(20, 5)
    found = ksvd(Y, 6, 2, 0, generator=seeded())
    cosines = (Y / Y.norm(dim=1, keepdim=True)) @ found.dictionary
    assert cosines.amax(0).tolist() == pytest.approx([1.0] * 6)
    assert len(found.errors) == 1


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"signals": torch.ones(3)}, ["signals has shape (3,)", "(N, m)"]),
        ({"signals": torch.ones(0, 3)}, ["signals has shape (0, 3)"]),
        ({"signals": torch.tensor([[1.0, float("nan")]])}, ["signals has 1 entries that are NaN"]),
        ({"atoms": 0}, ["atoms is 0", ">= 1"]),
        ({"atoms": 2.5}, ["atoms is 2.5", "whole number"]),
        ({"nonzeros": 0}, ["nonzeros is 0"]),
        ({"nonzeros": 4}, ["nonzeros is 4", "6 atoms of length 3 allow at most 3"]),
        ({"nonzeros": True}, ["nonzeros is True"]),
        ({"iterations": -1}, ["iterations is -1", ">= 0"]),
        ({"generator": None}, ["generator must be a torch.Generator"]),
    ],
)
def test_bad_input_is_one_line(changes, parts):
    good = {"signals": normal(10, 3), "atoms": 6, "nonzeros": 2, "iterations": 1, "generator": seeded()}
    refused(lambda: ksvd(**(good | changes)), *parts)
