"""Try a second layer of filters on pictures, in groups, beside the first.

    python -m benchmarks.second_layer [--device cuda] [--train N] [--seconds S]

Training pictures of CIFAR-10 alone: N are learned from, a third as many held out. The
first layer is that of :class:`~kaucus.PatchKernelClassifier`: responses to whitened
patches, rectified, pooled over nine cells, rooted. For the second, responses of the
first to few filters are pooled over small windows and put into groups; patches of the
maps of a group are whitened and become the filters of the group (Coates and Ng,
"Selecting receptive fields in deep networks", 2011; Knyazev et al., "Recursive
autoconvolution for unsupervised learning of convolutional neural networks", 2017). The
kernel is the mean of one Gaussian for each layer and size; gamma and C by closed-form
leave-one-out.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from kaucus.kernels._patches import cell_windows

PIXELS_CONTRAST, MAPS_CONTRAST, RIDGE = 10.0, 0.1, 0.1
THRESHOLD, CELLS = 1.5, 3
# What is changed of: 128 filters of 5 x 5, thresholds 0.5 and 1, windows of 4 every 2,
# the root, groups of 8 correlated maps, 128 filters of 4 x 4 for each.
BASE = {"m1": 128, "p1": 5, "t1": 0.5, "window": (4, 2), "root": 0.5, "g": 8}
BASE |= {"grouping": "correlated", "p2": 4, "m2": 128, "t2": 1.0}
TRIALS: dict[str, dict] = {
    "groups of 8": {},
    "second filters of 3 x 3": {"p2": 3},
    "random groups": {"grouping": "random"},
    "windows of 3 everywhere, filters of 6 x 6": {"window": (3, 1), "p2": 6},
    "groups of 4": {"g": 4, "m2": 64},
    "groups of 16": {"g": 16, "m2": 256},
    "no root between": {"root": 1.0},
    "first filters of 4 x 4": {"p1": 4},
    "512 first filters": {"m1": 512, "m2": 32},
    "random groups, 3 x 3 after 4 x 4": {"grouping": "random", "p2": 3, "p1": 4},
}


def whitened_patches(X: Tensor, size: int, m: int, contrast: float, n: int, rng):
    """Return m filters, (m, c p q), and biases, of n random patches of X."""
    patches = functional.unfold(X[:2000], size).transpose(1, 2).flatten(0, 1)
    patches = patches[torch.randperm(len(patches), generator=rng)[:n].to(X.device)]
    p = patches - patches.mean(1, keepdim=True)
    kept = p.square().mean(1) > contrast
    p = p / (p.square().mean(1, keepdim=True) + contrast).sqrt()
    mean = p.mean(0)
    values, V = torch.linalg.eigh(((p - mean).T @ (p - mean) / len(p)).double())
    W = ((V * (values.clamp_min(0) + RIDGE).rsqrt()) @ V.T).float()
    p = p[kept] if int(kept.sum()) >= m else p
    D = functional.normalize((p[:m] - mean) @ W, dim=1)
    F = D @ W
    return F - F.mean(1, keepdim=True), -(F @ mean)


def responses(X: Tensor, F: Tensor, bias: Tensor, size: int, contrast: float) -> Tensor:
    """Return the responses of all patches, (n, m, positions down, across)."""
    n, _, height, width = X.shape
    down, across = height - size + 1, width - size + 1
    half = torch.float16 if X.is_cuda else torch.float32
    patches = functional.unfold(X, size).transpose(1, 2)
    patches = patches - patches.mean(2, keepdim=True)
    patches /= (patches.square().mean(2, keepdim=True) + contrast).sqrt()
    z = patches.to(half) @ F.T.to(half) + bias.to(half)
    return z.transpose(1, 2).reshape(n, -1, down, across)


def pooled_over_cells(z: Tensor, threshold: float) -> Tensor:
    """Return the means of both rectified responses over the cells, (n, 2 m cells)."""
    sides = []
    for length in z.shape[2:]:
        side = torch.zeros(CELLS, length, dtype=z.dtype, device=z.device)
        for k, window in enumerate(cell_windows(length, CELLS)):
            side[k, window] = 1 / (window.stop - window.start)
        sides.append(side)
    parts = (torch.relu(z - threshold), torch.relu(-z - threshold))
    return torch.cat([(sides[0] @ p @ sides[1].T).flatten(1) for p in parts], 1).float()


def with_mirror(X: Tensor, features, block: int) -> Tensor:
    """Return the means of the features of pictures and of their mirror images."""
    blocks = (X[i : i + block] for i in range(0, len(X), block))
    return torch.cat([(features(x) + features(x.flip(3))) / 2 for x in blocks])


def first_layer(X: Tensor, size: int, m: int, rng) -> Tensor:
    """Return the pooled responses of one layer."""
    F, bias = whitened_patches(X, size, m, PIXELS_CONTRAST, 100_000, rng)

    def features(x: Tensor) -> Tensor:
        z = responses(x, F, bias, size, PIXELS_CONTRAST)
        return pooled_over_cells(z, THRESHOLD)

    return with_mirror(X, features, 1000)


def second_layer(X: Tensor, how: dict, rng) -> Tensor:
    """Return the pooled responses of groups of maps of a first layer."""
    F, bias = whitened_patches(X, how["p1"], how["m1"], PIXELS_CONTRAST, 100_000, rng)

    def maps(x: Tensor) -> Tensor:
        z = responses(x, F, bias, how["p1"], PIXELS_CONTRAST)
        parts = torch.relu(z - how["t1"]), torch.relu(-z - how["t1"])
        means = [functional.avg_pool2d(part, *how["window"]) for part in parts]
        return torch.cat(means, 1).float() ** how["root"]

    some = torch.cat([maps(X[i : i + 500]) for i in range(0, min(len(X), 2000), 500)])
    mean, spread = some.mean((0, 2, 3)), some.std((0, 2, 3)).clamp_min(1e-4)

    def standard(q: Tensor) -> Tensor:
        return (q - mean[:, None, None]) / spread[:, None, None]

    some = standard(some)
    groups = list(grouped(some, how["g"], how["grouping"], rng))
    size, m = how["p2"], how["m2"]
    banks = [
        whitened_patches(some[:, group], size, m, MAPS_CONTRAST, 20_000, rng)
        for group in groups
    ]

    def features(x: Tensor) -> Tensor:
        q = standard(maps(x))
        return torch.cat(
            [
                pooled_over_cells(
                    responses(q[:, group], *bank, size, MAPS_CONTRAST), how["t2"]
                )
                for group, bank in zip(groups, banks, strict=True)
            ],
            dim=1,
        )

    return with_mirror(X, features, 500)


def grouped(maps: Tensor, g: int, how: str, rng) -> Iterator[Tensor]:
    """Yield the channels of each group: g at random, or one and those most like it."""
    order = torch.randperm(maps.shape[1], generator=rng)
    if how == "random":
        yield from order.reshape(-1, g).to(maps.device)
        return
    likeness = torch.corrcoef(maps.transpose(0, 1).flatten(1)[:, ::7]).cpu()
    left = torch.ones(len(likeness), dtype=torch.bool)
    for first in order:
        if left[first]:
            near = torch.where(left, likeness[first], -2.0).argsort(descending=True)[:g]
            left[near] = False
            yield near.to(maps.device)


def distances(phi: Tensor, n: int) -> Tensor:
    """Return the squared distances of standardised roots, over their mean, (N, n)."""
    N = len(phi)
    gram, squares = torch.zeros(N, n, device=phi.device), 0.0
    for j in range(0, phi.shape[1], 8192):
        f = phi[:, j : j + 8192].sqrt()
        spread = f[:n].std(0)
        f = torch.where(spread > 1e-6, (f - f[:n].mean(0)) / spread, 0.0)
        gram += f @ f[:n].T
        squares = squares + f.square().sum(1)
    return (squares[:, None] + squares[:n] - 2 * gram).clamp_min(0) / squares[:n].mean()


def errors(parts: list[Tensor], y: Tensor, n: int) -> tuple[float, float]:
    """Return the errors in per cent, left out and held out, of the best gamma and C."""
    Y = 2.0 * functional.one_hot(y[:n], 10).double() - 1
    best = (np.inf, 0.0, 0.0)
    for gamma in (0.25, 0.5):
        K = sum(torch.exp(-gamma / 2 * D) for D in parts).double() / len(parts)
        for C in (30, 100):
            H = K[:n] + 1.0
            H.diagonal().add_(1 / C)
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(H))
            alpha = inverse @ Y
            left_out = Y - alpha / inverse.diagonal()[:, None]
            held_out = K[n:] @ alpha + alpha.sum(0)
            wrong = [
                100 * float((f.argmax(1) != labels).double().mean())
                for f, labels in ((left_out, y[:n]), (held_out, y[n:]))
            ]
            best = min(best, (float((Y - left_out).square().mean()), *wrong))
    return best[1:]


def main() -> None:
    """Run the trials, and print a line for each."""
    from papers.datasets import load_cifar10

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--train", type=int, default=15_000)
    parser.add_argument("--filters", type=int, default=2048, help="of each size")
    parser.add_argument("--seconds", type=float, default=np.inf)
    options = parser.parse_args()
    start, n = time.perf_counter(), options.train
    torch.backends.cuda.matmul.allow_tf32 = True
    cifar = load_cifar10()
    pictures = np.asarray(cifar.X_train[: n + n // 3], dtype=np.float32)
    X = torch.tensor(pictures, device=options.device).reshape(-1, 3, 32, 32)
    y = torch.tensor(np.asarray(cifar.y_train[: len(X)]), device=options.device).long()
    rng = torch.Generator().manual_seed(0)
    sizes = (4, 6, 9)
    one = [distances(first_layer(X, p, options.filters, rng), n) for p in sizes]

    def tell(name: str, parts: list[Tensor]) -> None:
        left_out, held_out = errors(parts, y, n)
        print(
            f"{name:52s} left out {left_out:.2f} %, held out {held_out:.2f} %  "
            f"({time.perf_counter() - start:.0f} s)",
            flush=True,
        )

    tell("one layer, 4 x 4, 6 x 6 and 9 x 9", one)
    for name, changes in TRIALS.items():
        if time.perf_counter() - start > options.seconds:
            break
        rng = torch.Generator().manual_seed(1)
        D = distances(second_layer(X, BASE | changes, rng), n)
        tell(f"{name}, alone", [D])
        tell(f"{name}, with one layer", [*one, D])


if __name__ == "__main__":
    main()
