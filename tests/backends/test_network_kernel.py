"""network.cu against the plain network, run on a CPU lane by lane (see emulate.h)."""

import pytest
import torch
from emulation import emulated, pointer

from sureprox.kernels.network.gpu import architecture
from sureprox.optimizers import L2ODM, L2OPA, GoMathL2O, RNNProp

NETWORKS = {"go-math-l2o": GoMathL2O, "l2o-pa": L2OPA, "l2o-dm": L2ODM, "rnnprop": RNNProp}


@pytest.fixture(scope="module", params=NETWORKS)
def case(request, tmp_path_factory):
    """A network, its architecture and the kernels for it."""
    network = NETWORKS[request.param]().network
    shape = architecture(network)
    return network, shape, emulated("emulate_network.cpp", shape.macros(), tmp_path_factory.mktemp("kernel"))


@pytest.mark.parametrize("options", [{"hidden": 8}, {"layers": 1}, {"biases": True}])
def test_the_kernel_is_not_offered_for_other_networks(options):
    assert architecture(GoMathL2O(**options).network) is None


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (16, 1), (150, 1), (300, 2)])
def test_emulated_kernel_computes_network_and_its_gradients(case, rows, blocks):
    network, shape, kernels = case
    torch.manual_seed(rows)
    with torch.no_grad():
        for p in network.parameters():
            p.normal_(0, 0.4)
    weights = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    assert weights.numel() == shape.weights
    width = network.embed.in_features if network.embed is not None else shape.features
    raw = torch.randn(rows, width)
    signal = raw
    if network.embed is not None:
        signal = torch.nn.functional.elu(network.embed(raw)).detach()
    h, c = torch.randn(2, rows, 20), torch.randn(2, rows, 20)
    out, h_new, c_new = torch.full((rows, shape.heads), torch.nan), torch.full_like(h, torch.nan), torch.empty_like(c)
    inputs = [signal, h, c, weights]
    kernels.forward(*map(pointer, [*inputs, out, h_new, c_new]), rows, blocks)

    exact = network.double()
    exact_inputs = [t.double().requires_grad_() for t in (raw, h, c)]
    heads, exact_h, exact_c = exact(exact_inputs[0].unsqueeze(0), *exact_inputs[1:])
    exact_out = torch.stack([heads[name][0] for name in network.names], 1)
    for ours, theirs in ((out, exact_out), (h_new, exact_h), (c_new, exact_c)):
        torch.testing.assert_close(ours.double(), theirs.detach(), rtol=1e-5, atol=2e-6)

    seeds = [torch.randn_like(t) for t in (out, h_new, c_new)]
    results = [torch.full_like(t, torch.nan) for t in (signal, h, c)]
    partial = torch.full((blocks, shape.weights), torch.nan)
    kernels.backward(*map(pointer, [*inputs, *seeds, *results, partial]), rows, blocks)
    loss = sum((s.double() * t).sum() for s, t in zip(seeds, (exact_out, exact_h, exact_c), strict=True))
    gradients = torch.autograd.grad(loss, [*exact_inputs, *exact.parameters()])
    network.float()
    for ours, theirs in zip(results[1:], gradients[1:3], strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)
    if network.embed is None:
        torch.testing.assert_close(results[0].double(), gradients[0], rtol=1e-4, atol=1e-5)
    exact_weights = torch.cat([g.reshape(-1) for g in gradients[3:]])[shape.offset :]
    total = partial.sum(0).double()
    assert (total[: shape.offset] == 0).all()
    error = torch.linalg.vector_norm(total[shape.offset :] - exact_weights) / torch.linalg.vector_norm(exact_weights)
    assert error < 2e-6
    torch.testing.assert_close(total[shape.offset :], exact_weights, rtol=1e-4, atol=1e-4)


def test_gates_far_from_zero_and_numbers_that_are_not(case):
    """Saturated gates give what they should, and a NaN stays in its row."""
    network, shape, kernels = case
    torch.manual_seed(7)
    with torch.no_grad():
        for p in network.parameters():
            p.normal_(0, 30.0)
    weights = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    rows = 40
    signal, h = torch.randn(rows, shape.features), torch.randn(2, rows, 20)
    c = 1e3 * torch.randn(2, rows, 20)
    out, h_new, c_new = torch.empty(rows, shape.heads), torch.empty_like(h), torch.empty_like(c)
    kernels.forward(*map(pointer, [signal, h, c, weights, out, h_new, c_new]), rows, 1)
    assert bool(torch.isfinite(torch.cat([out.flatten(), h_new.flatten(), c_new.flatten()])).all())
    if network.embed is None:
        exact = network.double()
        _, exact_h, exact_c = exact(signal.double().unsqueeze(0), h.double(), c.double())
        network.float()
        torch.testing.assert_close(c_new[0].double(), exact_c[0].detach(), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(h_new[0].double(), exact_h[0].detach(), rtol=1e-4, atol=1e-4)
    c[0, 5, 3] = torch.nan
    kernels.forward(*map(pointer, [signal, h, c, weights, out, h_new, c_new]), rows, 1)
    assert out.isnan().any(1).nonzero().flatten().tolist() == [5]
