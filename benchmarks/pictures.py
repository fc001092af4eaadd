"""Pictures by a kernel of patches: errors, times, and the rates of its products.

Every row is from pixels (bytes, on the host) to the predictions of the test pictures,
with everything left open chosen from training pictures. Ways to the best error are
compared by their leave-one-out accuracy, and the best by that is run with other seeds.

    python -m benchmarks pictures --device cuda --data-home FOLDER --output OUT
"""

import functools
import gc
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import threadpoolctl

from benchmarks._runner import Content, Settings, Step, Table
from kaucus._array.namespace import (
    array_namespace,
    as_like,
    astype,
    device_name,
    device_of,
    on_gpu,
    product,
    products_in,
    synchronize,
    to_device,
)
from kaucus._array.segments import convolve_by_products
from kaucus.evaluation.clustering import format_seconds
from papers import Split, timed
from papers.datasets import load_cifar10, load_mnist

TITLE = "Pictures"
ABOUT = (
    "From pixels of one byte to predictions of the test pictures, fit and predict "
    "together; warm. Mirror images, threshold, cells, power, gamma and C are chosen by "
    "leave-one-out of training pictures. Of the ways to the best error, that of the "
    "best leave-one-out accuracy is run with three seeds. Rates count the operations "
    "that the result needs: half of a symmetric product."
)
PARTS = ("rates", "cifar", "mnist", "ways", "best", "two_threads")
SEEDS = (0, 1, 2)
AUTO = {"threshold": "auto", "power": "auto", "pooling": "auto"}
REPEATS = 3


class Sizes(NamedTuple):
    """How large everything is."""

    n_train: int | None = None
    n_test: int | None = None
    share: float = 1.0
    """Of the filters."""
    product: int = 16_384
    gram: tuple[int, int] = (50_000, 36_864)
    convolution: tuple[int, int] = (256, 2048)
    representatives: int = 16_000
    two_threads: tuple[int, int] = (5000, 512)


QUICK = Sizes(300, 100, 1 / 128, 256, (500, 600), (4, 16), 120, (200, 16))


def gpu_name(settings: Settings) -> str | None:
    """Return the name of the device."""
    return device_name(settings.device)


def steps(settings: Settings) -> list[Step]:
    """List the rows, each of which may fail without the others."""
    sizes = QUICK if settings.quick else Sizes()
    device, home = settings.device, settings.data_home

    def step(section: str, label: str, function: Callable, *args) -> Step:
        return Step(section, label, attempt, (function, *args), isolated=False)

    def fit(section: str, label: str, name: str, seed: int, options: dict) -> Step:
        options = {"random_state": seed, "device": device, **options}
        head = {"way": label, "seed": seed, "data": name}
        return Step(
            section,
            f"{name}: {label}, seed {seed}",
            attempt,
            (fit_row, name, options, sizes, home),
            head=head,
            isolated=False,
        )

    found = [
        step("rates", "rates", measure_rates, sizes, device),
        step("warm", "warm-up", warm_up, sizes, device, home),
    ]
    few = {"n_filters": _filters(2048, sizes), **AUTO}
    found += [fit("cifar", "2,048 filters", "cifar10", s, few) for s in SEEDS]
    grids = {**few, "pooling": (2, 3, 4), "combine": "mean"}
    label = "2,048 filters, three grids, mean of Gaussians"
    found += [fit("cifar", label, "cifar10", s, grids) for s in SEEDS]
    found += [
        fit("mnist", label, "mnist", 0, options)
        for label, options in mnist_ways(sizes).items()
    ]
    found += [_best("mnist", seed, sizes, settings) for seed in SEEDS[1:]]
    found += [
        fit("ways", label, "cifar10", 0, options)
        for label, options in cifar_ways(sizes).items()
    ]
    found.append(step("ways", "two layers", two_layers, sizes, device, home))
    found += [_best("best", seed, sizes, settings) for seed in SEEDS[1:]]
    found.append(step("two_threads", "two threads", two_threads, sizes, home))
    wanted = settings.parts or PARTS
    return [s for s in found if s.section in (*wanted, "warm")]


def cifar_ways(sizes: Sizes) -> dict[str, dict]:
    """Return the ways to the least error of CIFAR-10, as parameters."""
    many, three = _filters(12_288, sizes), {"patch_sizes": (4, 6, 9)}
    half, quarter = _filters(6144, sizes), _filters(3072, sizes)
    grids = {"pooling": (2, 3, 4), "combine": "mean"}
    fewer = {"n_representatives": sizes.representatives}
    return {
        "three sizes, Gaussian of the sum": {"n_filters": many, **three, **AUTO},
        "three sizes, mean of Gaussians": {
            **{"n_filters": many, "combine": "mean"},
            **three,
            **AUTO,
        },
        "three sizes and three grids, mean of Gaussians": {
            **{"n_filters": half},
            **three,
            **AUTO,
            **grids,
        },
        "hard rows as representatives, three sizes": {
            **{"n_filters": quarter},
            **three,
            **AUTO,
            **fewer,
        },
    }


def mnist_ways(sizes: Sizes) -> dict[str, dict]:
    """Return the ways to the least error of MNIST, as parameters."""
    many = _filters(10_240, sizes)
    return {
        "2,048 filters": {"n_filters": _filters(2048, sizes), **AUTO},
        "three sizes, Gaussian of the sum": {
            "n_filters": many,
            "patch_sizes": (4, 6, 9),
            **AUTO,
        },
        "three sizes, mean of Gaussians": {
            "n_filters": many,
            "patch_sizes": (4, 6, 9),
            "combine": "mean",
            **AUTO,
        },
    }


def _filters(n: int, sizes: Sizes) -> int:
    return max(round(n * sizes.share), 6)


def _best(section: str, seed: int, sizes: Sizes, settings: Settings) -> Step:
    """Return a run of the way that leave-one-out found best, with another seed."""
    name, ways = (
        ("mnist", mnist_ways(sizes))
        if section == "mnist"
        else ("cifar10", cifar_ways(sizes))
    )
    source = "mnist" if section == "mnist" else "ways"

    def args(content: Content) -> tuple:
        done = [r for r in content.get(source, []) if r.get("way") in ways]
        done = [r for r in done if "loo_percent" in r and r["seed"] == 0]
        if not done:
            return (nothing_to_repeat,)
        way = min(done, key=lambda r: r["loo_percent"])["way"]
        options = {"random_state": seed, "device": settings.device, **ways[way]}
        return (repeat_row, way, seed, name, options, sizes, settings.data_home)

    return Step(
        section, f"{name}: best way, seed {seed}", attempt, args, isolated=False
    )


def attempt(function: Callable, *args: Any) -> dict | list:
    """Run a row; a failure is printed and leaves its reason."""
    try:
        return function(*args)
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        return {"skipped": f"{type(error).__name__}: {error}"[:300]}
    finally:
        gc.collect()
        if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
            sys.modules["torch"].cuda.empty_cache()


def nothing_to_repeat() -> dict:
    """Say that no way came to its end."""
    return {"skipped": "no way to repeat"}


# ---- rows ----------------------------------------------------------------------------


def load(name: str, sizes: Sizes, data_home):
    """Load pictures as bytes."""
    X_train, y_train, X_test, y_test = load_bytes(name, data_home)
    n, m = sizes.n_train, sizes.n_test
    return Split(X_train[:n], y_train[:n], X_test[:m], y_test[:m])


@functools.cache
def load_bytes(name: str, data_home) -> tuple[np.ndarray, ...]:
    """Load a set of pictures, once."""
    loader = {"cifar10": load_cifar10, "mnist": load_mnist}[name]
    return loader(data_home=data_home, dtype="uint8", return_X_y=True)


def fit_row(name: str, options: dict, sizes: Sizes, data_home) -> dict[str, Any]:
    """Fit and predict once; return times, errors and what was chosen."""
    from kaucus import PatchKernelClassifier

    split = load(name, sizes, data_home)
    model = PatchKernelClassifier(**options)
    return _fit_and_predict(model, split.X_train, split.X_test, split)


def _fit_and_predict(model, X_train, X_test, split, before: float = 0.0) -> dict:
    _, fit_seconds = timed(model.fit, X_train, split.y_train)
    predicted, predict_seconds = timed(model.predict, X_test)
    return {
        "fit_seconds": fit_seconds + before,
        "predict_seconds": predict_seconds,
        "seconds": fit_seconds + predict_seconds + before,
        "error_percent": float(100 * np.mean(predicted != split.y_test)),
        "loo_percent": 100 * (1 - model.loo_score_),
        "chosen": model.explain(),
    }


def repeat_row(way: str, seed: int, name: str, *args: Any) -> dict[str, Any]:
    """Run the best way again."""
    return {"way": way, "seed": seed, "data": name, **fit_row(name, *args)}


def warm_up(sizes: Sizes, device, data_home) -> dict[str, Any]:
    """Let the libraries load what they load at their first use."""
    options = {"n_filters": _filters(2048, sizes), "device": device, **AUTO}
    small = sizes._replace(n_train=min(sizes.n_train or 6000, 6000), n_test=50)
    return fit_row("cifar10", {**options, "random_state": 0}, small, data_home)


def two_threads(sizes: Sizes, data_home) -> dict[str, Any]:
    """Fit some pictures of CIFAR-10 on the host, with two threads."""
    n_train, n_filters = sizes.two_threads
    small = sizes._replace(n_train=n_train)
    options = {"n_filters": n_filters, "random_state": 0}
    with threadpoolctl.threadpool_limits(2):
        record = fit_row("cifar10", options, small, data_home)
    way = f"{n_train:,} pictures, {n_filters} filters, two threads"
    return {"way": way, "seed": 0, "data": "cifar10", **record}


def two_layers(sizes: Sizes, device, data_home) -> dict[str, Any]:
    """Take the responses of a first layer, fewer channels of them, as pictures."""
    from kaucus import PatchKernelClassifier
    from kaucus.preprocessing import PatchDictionary

    split, cells, channels = load("cifar10", sizes, data_home), 9, 48
    first = PatchDictionary(128, 6, pooling=cells, device=device, random_state=0)

    def layer(X, projection=None):
        maps = first.transform(X).reshape(len(X) * cells**2, -1)
        if projection is None:
            some = maps[:: max(len(maps) // 50_000, 1)]
            some = some - some.mean(axis=0)
            projection = np.linalg.eigh(some.T @ some)[1][:, -channels:]
        maps = (maps @ projection).reshape(len(X), cells, cells, -1)
        return maps.transpose(0, 3, 1, 2).reshape(len(X), -1), projection

    def both():
        first.fit(split.X_train)
        X_train, projection = layer(split.X_train)
        return X_train, layer(split.X_test, projection)[0], projection.shape[1]

    (X_train, X_test, n_channels), seconds = timed(both)
    model = PatchKernelClassifier(
        _filters(6144, sizes),
        3,
        image_shape=(n_channels, cells, cells),
        threshold="auto",
        mirror=False,
        device=device,
        random_state=0,
    )
    record = _fit_and_predict(model, X_train, X_test, split, seconds)
    return {"way": "two layers", "seed": 0, "data": "cifar10", **record}


# ---- rates ---------------------------------------------------------------------------


def measure_rates(sizes: Sizes, device) -> list[dict[str, Any]]:
    """Measure a large product, the Gram products of a fit, and two convolutions."""
    from kaucus.kernels._patches import add_lower_gram

    rng = np.random.default_rng(0)
    like = to_device(np.zeros((1, 1), dtype=np.float32), device)
    xp, (n, depth), p = array_namespace(like), sizes.gram, sizes.product
    precision = "tf32" if on_gpu(like) else "float32"

    def random(*shape):
        block = as_like(rng.normal(size=(64, shape[1])), like, dtype="float32")
        return xp.concat([block] * -(-shape[0] // 64))[: shape[0], :]

    with products_in(precision):
        A = random(p, p)
        peak = _rate("product", 2 * p**3, lambda: product(A, A), like)
        G = xp.zeros((n, n), dtype=A.dtype, device=device_of(A))
        phi = random(n, depth)
        gram = _rate("Gram products", n * n * depth, lambda: add_lower_gram(G, phi), A)
    rates = [peak, gram]
    for record in rates:
        record["precision"] = precision
        record["share"] = record["tflops"] / peak["tflops"]
    if on_gpu(like):
        rates += _convolutions(sizes, like, peak)
    return rates


def _convolutions(sizes: Sizes, like, peak: dict) -> list[dict[str, Any]]:
    """Measure both ways to the responses in half precision."""
    import torch

    rng, (n, m) = np.random.default_rng(0), sizes.convolution
    images = as_like(rng.normal(size=(n, 3, 32, 32)), like, dtype="float32")
    filters = as_like(rng.normal(size=(m, 3, 6, 6)), like, dtype="float16")
    scale = as_like(np.ones((n, 27 * 27, 1)), like, dtype="float32")
    bias = as_like(np.ones(m), like, dtype="float16")
    half = astype(images, "float16").to(memory_format=torch.channels_last)
    last = filters.to(memory_format=torch.channels_last)
    work = 2 * n * 27**2 * m * 108

    def by_conv2d():
        z = torch.nn.functional.conv2d(half, last).flatten(2).mT
        return z.mul_(scale.to(torch.float16)).add_(bias)

    def by_products():
        return next(convolve_by_products(images, [filters], scale=scale, bias=bias))

    found = [
        _rate("responses by conv2d", work, by_conv2d, like),
        _rate("responses by products", work, by_products, like),
    ]
    share = {"precision": "float16"}
    return [{**r, **share, "share": r["tflops"] / peak["tflops"]} for r in found]


def _rate(what: str, operations: float, run: Callable[[], Any], like) -> dict:
    def to_the_end():
        run()
        synchronize(like)

    to_the_end()
    seconds = min(timed(to_the_end)[1] for _ in range(REPEATS))
    return {"what": what, "seconds": seconds, "tflops": operations / seconds / 1e12}


# ---- tables --------------------------------------------------------------------------

ROW_HEADERS = (
    *("data", "way", "seed", "test error %", "leave-one-out error %"),
    *("fit", "predict", "chosen"),
)
RATE_HEADERS = ("what", "precision", "time", "TFLOP/s", "share of product")


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
    titles = {
        "cifar": "CIFAR-10, 2,048 filters",
        "mnist": "MNIST",
        "ways": "CIFAR-10, ways to the least error",
        "best": "CIFAR-10, the best way again",
        "two_threads": "Two threads of the host",
    }
    found = [
        Table(title, ROW_HEADERS, [_row(r) for r in content.get(section, [])])
        for section, title in titles.items()
    ]
    rates = [_rate_row(r) for r in content.get("rates", [])]
    every = [*found, Table("Rates", RATE_HEADERS, rates)]
    return [table for table in every if table.rows]


def _row(record: dict) -> list[str]:
    head = [record.get("data", ""), record.get("way", ""), str(record.get("seed", ""))]
    if "skipped" in record:
        return [*head, record["skipped"], "", "", "", ""]
    return [
        *head,
        f"{record['error_percent']:.2f}",
        f"{record['loo_percent']:.2f}",
        format_seconds(record["fit_seconds"]),
        format_seconds(record["predict_seconds"]),
        record["chosen"],
    ]


def _rate_row(record: dict) -> list[str]:
    if "skipped" in record:
        return ["rates", record["skipped"], "", "", ""]
    return [
        record["what"],
        record["precision"],
        format_seconds(record["seconds"]),
        f"{record['tflops']:.1f}",
        f"{100 * record['share']:.0f} %",
    ]
