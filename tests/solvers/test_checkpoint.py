"""A run that was stopped goes on as if it had not been; no other file is believed."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kaucus
from kaucus.kernels import CallableKernel, Gaussian, MahalanobisRBF, Precomputed
from kaucus.solvers import RANDOMIZED
from kaucus.solvers._checkpoint import CheckpointError, describe, remove_leftovers
from kaucus.solvers._randomized import solve_ls_svm_randomized

each_solver = pytest.mark.parametrize("solver", RANDOMIZED)
N, STEPS = 60, 23


def solve(
    solver="kaczmarz_mp", *, kernel=None, interrupt_at=None, held=True, **options
):
    """Fit 60 rows by blocks of 13; raise Ctrl-C at a certain block of the kernel."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 3))
    Y = np.sign(X[:, :1] + X[:, 1:2] ** 2 - 1)
    kernel = Gaussian(gamma=0.7) if kernel is None else kernel
    if interrupt_at is not None:
        kernel = interrupted(kernel, interrupt_at)
    given = {"max_iter": STEPS, "tol": 1e-13, "block_size": 13} | options
    return solve_ls_svm_randomized(
        kernel,
        X,
        Y,
        C=100.0,
        solver=solver,
        rng=np.random.default_rng(0),
        memory_budget=70_000,  # no room to keep rows: each step computes its block
        held_out=np.arange(7) if held else None,
        **given,
    )


def interrupted(kernel, call):
    """Return the kernel, with Ctrl-C in the given call; a checkpoint sees no change."""
    calls = []

    def tile(X, Y):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return type(kernel).tile(kernel, X, Y)

    object.__setattr__(kernel, "tile", tile)
    return kernel


def stopped_at(call, solver="kaczmarz_mp", **options):
    """Interrupt a fit; before the first step there is nothing to keep."""
    try:
        info = solve(solver, interrupt_at=call, **options).solution.info
    except KeyboardInterrupt:
        assert not os.path.exists(options["checkpoint"])
    else:
        assert info.interrupted or info.stop == "complete"


def assert_same(resumed, whole):
    a, b = resumed.solution, whole.solution
    assert (a.info.n_iter, a.info.stop) == (b.info.n_iter, b.info.stop)
    assert a.info.backward_error == pytest.approx(b.info.backward_error, rel=1e-6)
    scale = np.max(np.abs(b.dual_coef))
    assert_allclose(a.dual_coef, b.dual_coef, rtol=0, atol=1e-8 * scale)
    assert_allclose(a.intercept, b.intercept, rtol=1e-6, atol=1e-8)
    assert_allclose(a.loo_decision, b.loo_decision, rtol=1e-6, atol=1e-7)
    for name in ("run", "step", "residual", "change"):
        assert_allclose(resumed.history[name], whole.history[name], rtol=1e-5)


@pytest.mark.parametrize("n_runs", [1, 2])
@each_solver
def test_ctrl_c_anywhere_and_on_again_is_as_if_it_had_not_come(
    solver, n_runs, tmp_path
):
    whole = solve(solver, n_runs=n_runs)
    for k in (3, 4, 8, 14):
        options = {"n_runs": n_runs, "checkpoint": tmp_path / f"{k}"}
        stopped_at(k, solver, **options)
        assert_same(solve(solver, **options), whole)


def test_the_best_weights_survive(tmp_path):
    """The printed hybrid diverges: what is best was many steps ago."""
    options = {"safeguard": False, "max_iter": 30}
    whole = solve(**options)
    residuals = whole.history["residual"]
    assert residuals[-1] > 2 * min(residuals)
    options["checkpoint"] = tmp_path / "state"
    stopped_at(25, **options)
    assert_same(solve(**options), whole)


def test_the_residual_without_the_rows_held_out_is_remembered(tmp_path):
    """It decides when to stop, and is not that of the history."""
    whole = solve("matching_pursuit", tol=0.1)
    assert 6 < whole.solution.info.n_iter < STEPS
    for k in range(3, whole.solution.info.n_iter):
        options = {"tol": 0.1, "checkpoint": tmp_path / f"{k}"}
        stopped_at(k, "matching_pursuit", **options)
        assert_same(solve("matching_pursuit", **options), whole)


def test_runs_that_had_ended_are_kept_without_those_cut_short(tmp_path):
    alone = solve("nystrom", n_runs=2)
    steps = alone.solution.info.n_iter
    kept = solve("nystrom", n_runs=3, interrupt_at=2 * steps + 4)
    assert kept.solution.info.interrupted
    assert set(kept.history["run"]) <= {0, 1}


# ---- files that are none, or of another fit ------------------------------------------


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "state.npz"
    solve(checkpoint=path, max_iter=4)
    return path


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def npy(values, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values, **options)
    return stream.getvalue()


def header(shape, dtype="<f8"):
    """Return an array that claims a shape, with nothing behind it."""
    stream = io.BytesIO()
    fields = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


def head_with(**changes):
    def change(parts):
        head = json.loads(parts["head.json"])
        return {"head.json": json.dumps(head | changes).encode()}

    return change


def changed(name, change):
    def apply(parts):
        values = np.lib.format.read_array(io.BytesIO(parts[name]))
        return {name: npy(change(values.copy()))}

    return apply


def with_nan(values):
    values[0] = np.nan
    return values


W = "state0.W.npy"
LIES = {
    "8 TB": lambda parts: {W: header((10**6, 10**6))},
    "8 TB of steps": lambda parts: {
        **head_with(step=10**11)(parts),
        "log.npy": header((10**11, 8)),
    },
    "negative shape": lambda parts: {W: header((-1, 1))},
    "nan weights": changed(W, with_nan),
    "infinite residual": changed("state1.R.npy", lambda R: R + np.inf),
    "nan in the log": changed("log.npy", lambda log: log * np.nan),
    "other shape": changed(W, lambda W: W[:-1]),
    "other type": changed(W, lambda W: W.astype("f4")),
    "other order of memory": changed("log.npy", np.asfortranarray),
    "texts": lambda parts: {W: npy(np.full((N + 1, 1), "a"))},
    "pickles": lambda parts: {
        W: npy(np.full((N + 1, 1), Path("/"), object), allow_pickle=True)
    },
    "cut short": lambda parts: {W: parts[W][:-8]},
    "longer": lambda parts: {W: parts[W] + b"12345678"},
    "no array": lambda parts: {W: b"weights"},
    "a part too many": lambda parts: {"more.npy": parts[W]},
    "no permutation": changed("order.npy", np.zeros_like),
    "steps missing": changed("log.npy", lambda log: log[::-1]),
    "step -1": head_with(step=-1),
    "step 1e9": head_with(step=10**9),
    "step true": head_with(step=True),
    "step text": head_with(step="4"),
    "format": head_with(format=1),
    "no sampler": head_with(sampler=None),
    "no generator": head_with(sampler={"position": 1, "generator": {}}),
    "position": head_with(sampler={"position": 99, "generator": {}}),
    "fingerprint": head_with(fingerprint=3),
    "deep": lambda parts: {"head.json": b"[" * 10**5},
    "long head": lambda parts: {"head.json": b" " * (2**20 + 1)},
    "no json": lambda parts: {"head.json": b"\xff\xfe{"},
    "no head": lambda parts: {"head.json": None},
    "no weights": lambda parts: {W: None},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_lying_file_is_refused_in_one_sentence(lie, good, tmp_path):
    parts = parts_of(good)
    parts |= lie(parts)
    write(good, {name: c for name, c in parts.items() if c is not None})
    refused(good)


def refused(path):
    before = path.read_bytes()
    with pytest.raises(
        CheckpointError, match=r"cannot be read .*nothing was loaded\. Mo"
    ):
        solve(checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_compressed_file_is_refused(good, compression):
    write(good, parts_of(good), compression)
    refused(good)


def test_a_damaged_or_truncated_file_is_refused(good):
    content = good.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        good.write_bytes(content[: rng.integers(len(content))])
        refused(good)
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=3):
            damaged[place] ^= 1 << rng.integers(8)
        good.write_bytes(bytes(damaged))
        refused_or_whole(good)
    for foreign in (b"", b"something else", b"PK\x03\x04", b"\x93NUMPY\x01\x00"):
        good.write_bytes(foreign)
        refused(good)
    with good.open("wb") as stream:
        np.savez(stream, a=np.ones(3))
    refused(good)


WHOLE = solve()


def refused_or_whole(path):
    """A flipped bit may hit a date, which nobody reads."""
    try:
        resumed = solve(checkpoint=path)
    except CheckpointError:
        return
    assert_same(resumed, WHOLE)


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="not a regular file"):
        solve(checkpoint=tmp_path / "folder")


# ---- writing -------------------------------------------------------------------------


def test_a_planted_link_is_not_followed(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "state.npz"
    victim.write_text("mine")
    for planted in (tmp_path / "state.npz.part", tmp_path / ".state.npz.part"):
        planted.symlink_to(victim)
    solve(checkpoint=path, max_iter=3)
    assert victim.read_text() == "mine"
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    solve(checkpoint=path, max_iter=3)
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        solve(checkpoint=tmp_path / "state.npz", max_iter=3)
    assert os.listdir(tmp_path) == []


def test_what_a_kill_left_of_a_write_is_removed(tmp_path):
    path = tmp_path / "state.npz"
    others = [".state.npz.part", ".other.npz.abcdefgh.part", "state.npz.abcdefgh.part"]
    for name in (".state.npz.ab_def01.part", *others):
        (tmp_path / name).touch()
    remove_leftovers(path)
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_weights_that_diverged_are_not_saved(good):
    before = good.read_bytes()
    with np.errstate(all="ignore"):
        solve(checkpoint=good, safeguard=False, max_iter=4)
    assert good.read_bytes() == before


# ---- the fingerprint -----------------------------------------------------------------


def squares(X, Y):
    return np.exp(-0.7 * ((X[:, None] - Y[None]) ** 2).sum(axis=2))


class Squares:
    def __call__(self, X, Y):
        return squares(X, Y)


@pytest.mark.parametrize(
    "function",
    [squares, Squares(), lambda X, Y: squares(X, Y)],
    ids=["function", "object", "lambda"],
)
def test_a_function_is_described_without_its_address(function):
    text = describe(CallableKernel(function))
    assert "0x" not in text
    assert text == describe(CallableKernel(function))


def test_kernels_that_print_alike_are_told_apart(tmp_path):
    path = tmp_path / "state"
    first, other = MahalanobisRBF(np.eye(3)), MahalanobisRBF(2 * np.eye(3))
    assert repr(first) == repr(other)
    solve(checkpoint=path, kernel=first, max_iter=3)
    with pytest.raises(CheckpointError, match="another fit: kernel differ"):
        solve(checkpoint=path, kernel=other)


def test_functions_of_one_name_are_told_apart_by_their_values(tmp_path):
    def kernel(scale):
        return CallableKernel(lambda X, Y: scale * squares(X, Y))

    path = tmp_path / "state"
    solve(checkpoint=path, kernel=kernel(1.0), max_iter=3)
    with pytest.raises(CheckpointError, match="another fit: kernel differ"):
        solve(checkpoint=path, kernel=kernel(1.01))
    solve(checkpoint=path, kernel=kernel(1.0 + 1e-15), max_iter=4)


def test_matrices_are_told_apart():
    K = np.eye(500)
    other = K.copy()
    other[200, 300] = other[300, 200] = 0.1  # where repr prints dots
    assert describe(Precomputed(K)) != describe(Precomputed(other))


IN_A_NEW_PROCESS = """
import sys
sys.path[:0] = {paths!r}
from tests.solvers.test_checkpoint import CallableKernel, Squares, solve, squares
kernels = [squares, Squares(), lambda X, Y: squares(X, Y)]
for k, function in enumerate(kernels):
    result = solve(kernel=CallableKernel(function), checkpoint=f"{folder}/{{k}}",
                   max_iter=int(sys.argv[1]))
    assert result.solution.info.n_iter == int(sys.argv[1])
    print(len(result.history["step"]), result.history["seconds"][0])
"""


@pytest.mark.slow
def test_a_function_as_kernel_survives_a_new_process(tmp_path):
    root = Path(__file__).parents[2]
    paths = [str(root), str(Path(kaucus.__file__).parents[1])]
    text = IN_A_NEW_PROCESS.format(paths=paths, folder=tmp_path)
    told = [
        subprocess.run(
            [sys.executable, "-c", text, steps],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for steps in ("3", "5")
    ]
    # The time of the first step is that of the first process: it was not taken again.
    first, second = ([line.split() for line in lines] for lines in told)
    assert [row[0] for row in second] == ["5"] * 3
    assert [row[1] for row in second] == [row[1] for row in first]
