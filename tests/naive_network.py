"""The coordinate-wise network again, in plain numpy and one coordinate at a time, to test the real one against."""

import math

import numpy as np
import torch


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def softplus(z: float) -> float:
    return math.log1p(math.exp(-abs(z))) + max(z, 0.0)


def elu(z: float) -> float:
    return z if z > 0 else math.expm1(z)


def soft(v: float, threshold: float) -> float:
    return math.copysign(max(abs(v) - threshold, 0.0), v)


class NaiveNetwork:
    """Weights of a `CoordinateNetwork`; the memory of each coordinate is a list of (h, c), one per layer."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.w = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
        self.layers = sum(name.startswith("lstm.weight_hh") for name in self.w)
        self.hidden = self.w["lstm.weight_hh_l0"].shape[1]
        self.heads = [name.split(".")[1] for name in self.w if name.startswith("heads.") and name.endswith("bias")]

    def blank(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(np.zeros(self.hidden), np.zeros(self.hidden)) for _ in range(self.layers)]

    def linear(self, name: str, signal: np.ndarray) -> np.ndarray:
        return self.w[f"{name}.weight"] @ signal + self.w[f"{name}.bias"]

    def __call__(self, features, memory) -> tuple[dict[str, float], list[tuple[np.ndarray, np.ndarray]]]:
        signal = np.asarray(features, dtype=float)
        if "embed.weight" in self.w:
            signal = np.array([elu(z) for z in self.linear("embed", signal)])
        after = []
        for layer, (h, c) in enumerate(memory):
            w = {part: self.w[f"lstm.{part}_l{layer}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
            gates = w["weight_ih"] @ signal + w["bias_ih"] + w["weight_hh"] @ h + w["bias_hh"]
            i, f, g, o = gates.reshape(4, self.hidden)
            cell = np.array([sigmoid(a) * b for a, b in zip(f, c, strict=True)])
            cell += np.array([sigmoid(a) * math.tanh(b) for a, b in zip(i, g, strict=True)])
            signal = np.array([sigmoid(a) * math.tanh(b) for a, b in zip(o, cell, strict=True)])
            after.append((signal, cell))
        if "inner.weight" in self.w:
            signal = np.maximum(self.linear("inner", signal), 0)
        return {head: float(self.linear(f"heads.{head}", signal)[0]) for head in self.heads}, after


class NaiveInstance:
    """One instance of LASSO or logistic regression: gradient, l1 bounds and 1/L, from the formulas."""

    def __init__(self, problem, i: int) -> None:
        f = problem.f
        self.A = f.A[i].numpy()
        self.lam = float(problem.r.lam[i])
        self.b = f.b[i].numpy() if hasattr(f, "b") else None
        self.y = f.y[i].numpy() if hasattr(f, "y") else None

    def grad(self, x: np.ndarray) -> np.ndarray:
        z = self.A @ x
        if self.b is not None:
            return self.A.T @ (z - self.b)
        return self.A.T @ (np.array([sigmoid(v) for v in z]) - self.y) / len(z)

    def bounds(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low = np.array([-self.lam if v <= 0 else self.lam for v in x])
        high = np.array([self.lam if v >= 0 else -self.lam for v in x])
        return low, high

    def subgradient(self, x: np.ndarray) -> np.ndarray:
        low, high = self.bounds(x)
        return self.grad(x) + (low + high) / 2
