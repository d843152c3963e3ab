"""The shared network equals torch's own LSTM and layers with the same weights, and a plain numpy version."""

import pytest
import torch

from helpers import refused
from naive_network import NaiveNetwork
from optimizer_cases import F64, gap, seeded, small_problem
from sureprox.optimizers import InitialState, lstm
from sureprox.optimizers.lstm import CoordinateNetwork

B, N_COORDINATES, WIDTH, HIDDEN = 2, 4, 3, 6


def network(layers: int = 2, embed: bool = False, inner: bool = True, dtype=F64) -> CoordinateNetwork:
    torch.manual_seed(0)
    return CoordinateNetwork(WIDTH, HIDDEN, layers, ("up", "down"), embed=embed, inner=inner).to(dtype)


def inputs(layers: int):
    g = seeded()
    shape = (layers, B * N_COORDINATES, HIDDEN)
    draw = lambda *size: torch.randn(*size, generator=g, dtype=F64)  # noqa: E731
    return [draw(B, N_COORDINATES, WIDTH) for _ in range(3)], draw(*shape), draw(*shape)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("embed", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_equals_torch_lstm(layers, embed, inner):
    net = network(layers, embed, inner)
    sequence, h, c = inputs(layers)
    lstm = torch.nn.LSTM(HIDDEN if embed else WIDTH, HIDDEN, layers, dtype=F64)
    weights = {k.removeprefix("lstm."): v for k, v in net.named_parameters() if k.startswith("lstm.")}
    lstm.load_state_dict(weights, strict=True)  # same names and shapes
    hx = (h, c)
    for features in sequence:
        out, h, c = net(features, h, c)
        signal = features.reshape(1, -1, WIDTH)
        if embed:
            signal = torch.nn.functional.elu(net.embed(signal))
        signal, hx = lstm(signal, hx)
        assert gap(h, hx[0]) <= 1e-13
        assert gap(c, hx[1]) <= 1e-13
        if inner:
            signal = torch.relu(net.inner(signal))
        assert set(out) == {"up", "down"}
        for name, value in out.items():
            assert value.shape == (B, N_COORDINATES)
            assert gap(value, net.heads[name](signal).reshape(B, N_COORDINATES)) <= 1e-13


def test_equals_one_coordinate_at_a_time_row_i_n_plus_j():
    net, layers = network(), 2
    sequence, h, c = inputs(layers)
    naive = NaiveNetwork(net)
    out, h1, c1 = net(sequence[0], h, c)
    for i in range(B):
        for j in range(N_COORDINATES):
            row = i * N_COORDINATES + j
            memory = [(h[layer, row].numpy(), c[layer, row].numpy()) for layer in range(layers)]
            expected, after = naive(sequence[0][i, j].numpy(), memory)
            assert float(out["up"][i, j].detach()) == pytest.approx(expected["up"], abs=1e-13)
            for layer in range(layers):
                assert gap(h1[layer, row], torch.tensor(after[layer][0])) <= 1e-13
                assert gap(c1[layer, row], torch.tensor(after[layer][1])) <= 1e-13


def test_float32_weights_are_used_in_the_precision_of_the_features():
    net = network(dtype=torch.float32)
    sequence, h, c = inputs(2)
    out, h1, _ = net(sequence[0], h, c)
    expected, h2, _ = net.double()(sequence[0], h, c)
    assert h1.dtype == out["up"].dtype == F64
    assert torch.equal(out["up"], expected["up"])
    assert torch.equal(h1, h2)


@pytest.mark.parametrize("argument", ["hidden", "layers"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "3", True])
def test_sizes_are_whole_numbers(argument, value):
    sizes = {"hidden": 4, "layers": 2} | {argument: value}
    refused(lambda: CoordinateNetwork(3, heads=("R",), **sizes), f"{argument} is {value!r}", "whole number >= 1")


# --- initial memory ---------------------------------------------------------------------------------------------------


def memory(kind: str, batch: int, seed: int = 0):
    problem = small_problem("lasso", batch=batch)
    return network().initial_memory(problem, InitialState(kind), seeded(seed)), problem.n


def test_zeros():
    (h, c), n = memory("zeros", 3)
    assert h.shape == c.shape == (2, 3 * n, HIDDEN)
    assert not h.any()
    assert not c.any()


def test_random_is_the_same_for_every_instance_and_batch_size():
    (h1, c1), n = memory("random", 1)
    (h3, c3), _ = memory("random", 3)
    assert h1.shape == (2, n, HIDDEN)
    assert torch.equal(h3, h1.repeat(1, 3, 1))
    assert torch.equal(c3, c1.repeat(1, 3, 1))
    assert not torch.equal(h1, c1)
    assert len(h1.flatten().unique()) == h1.numel()  # one draw per layer, coordinate and unit


def test_paper_is_independent_for_every_instance():
    (h, c), _ = memory("paper", 400)
    values = torch.cat([h.flatten(), c.flatten()])
    assert len(values.unique()) == values.numel()
    # 96,000 standard normal draws: mean, variance and the correlation of neighbours within 5 standard errors
    count = values.numel()
    assert abs(values.mean()) < 5 / count**0.5
    assert abs(values.var() - 1) < 5 * (2 / count) ** 0.5
    rows = h.reshape(2, 400, -1)
    assert abs((rows[:, 1:] * rows[:, :-1]).mean()) < 5 / rows[:, 1:].numel() ** 0.5


@pytest.mark.parametrize("kind", ["random", "paper"])
def test_reproducible_from_the_generator(kind):
    (h1, c1), _ = memory(kind, 3, seed=4)
    (h2, c2), _ = memory(kind, 3, seed=4)
    (h3, _), _ = memory(kind, 3, seed=5)
    assert torch.equal(h1, h2)
    assert torch.equal(c1, c2)
    assert not torch.equal(h1, h3)


def test_the_paper_s_memory_needs_a_generator():
    refused(
        lambda: network().initial_memory(small_problem("lasso"), InitialState.PAPER, None),
        "initial_state is 'paper'",
        "pass generator=torch.Generator()",
    )


def test_random_memory_without_a_generator_is_the_same_in_every_run_and_precision():
    problem = small_problem("lasso")
    first, _ = network().initial_memory(problem, InitialState.RANDOM, None)
    again, _ = network().initial_memory(problem, InitialState.RANDOM, None)
    single, _ = network().initial_memory(problem.to(dtype=torch.float32), InitialState.RANDOM, None)
    assert torch.equal(first, again)
    assert torch.equal(first.float(), single)
    assert first.std() > 0.5


def test_both_layouts_compute_the_same(monkeypatch):
    problem, memory = small_problem("lasso"), InitialState.RANDOM
    seen = []
    for channel in (0, 1):
        monkeypatch.setattr(lstm, "channel_dim", lambda device, channel=channel: channel)
        torch.manual_seed(0)
        net = network().double()
        h, c = net.initial_memory(problem, memory, None)
        features = torch.linspace(-1, 1, problem.batch * problem.n * 3, dtype=torch.float64)
        outputs, h, c = net(features.view(problem.batch, problem.n, 3), h, c)
        seen.append([*outputs.values(), h, c])
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)
