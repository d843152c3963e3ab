"""What `fine_tune` wins on held-out problems: spikes seen through a blur, without a matrix.

160 problems min 1/2 |K x - y|^2 + l1 sum_j x_j over x >= 0 of 128 coordinates, K a convolution with a Gaussian of nine
points, 8 % spikes, noise 0.01. No solve is finished on the support here, since a convolution has no columns in memory.
`fine_tune` starts from the general weights; 40 problems are held out.

    python benchmarks/fine_tuning.py [--batches 300] [--small]

`--small` tries the script and writes no record.
"""

import argparse

import torch

import sureprox as sp

from _record import write_record

SEED = 20261119


def spikes(count: int, n: int = 128) -> sp.Problem:
    generator = torch.Generator().manual_seed(SEED)
    kernel = torch.exp(-torch.linspace(-2, 2, 9, dtype=torch.float64).square())
    blur = sp.operators.Convolution(kernel / kernel.sum(), (n,))
    there = torch.rand(count, n, generator=generator, dtype=torch.float64) < 0.08
    size = -torch.log(torch.rand(count, n, generator=generator, dtype=torch.float64))
    blurred = blur.forward(torch.where(there, size, 0.0))
    noise = torch.randn(blurred.shape, generator=generator, dtype=torch.float64)
    f = sp.losses.LeastSquares(blur, blurred + 0.01 * noise)
    return sp.Problem(f, sp.penalties.Separable(0.02, low=0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--small", action="store_true", help="few problems and batches, no record")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    count, batches = (24, 3) if asked.small else (160, asked.batches)
    found = sp.fine_tune(spikes(count), "sure", changes={"batches": batches})
    print(found)
    held = {name: {"median_iterations": t.median, "unconverged": t.unconverged} for name, t in found.trials.items()}
    numbers = {"problems": count, "batches": batches, "held_out": len(found.trials["tuned"].iterations)}
    numbers |= {"accepted": found.accepted, "gain": found.gain, "uncertainty_of_log_gain": found.uncertainty}
    numbers |= {"trials": held}
    numbers["times_fewer_than_restarted_fista"] = float(
        (found.trials["fista-restart"].iterations.double() / found.trials["tuned"].iterations).log().mean().exp()
    )
    if not asked.small:
        print(write_record("fine_tuning", numbers))


if __name__ == "__main__":
    main()
