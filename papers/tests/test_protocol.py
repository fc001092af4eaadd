"""The papers' protocol in the files: what is printed is compared with what it says."""

from papers import load_paper
from papers._registry import build_method


def test_the_published_spectrum_has_the_printed_square_root():
    """Andrecut 2020, eq. (16); the 1-D and the 2-D reading; ours has no number."""
    cells = [c for c in load_paper("kmeans-kernel").cells if "FFT" in c.method]
    printed = [c for c in cells if c.published is not None]
    assert {c.params["fft"] for c in printed} == {"1d", "2d"}
    for cell in printed:
        features = build_method(cell.method, cell.params)[0]
        assert (features.fft, features.power) == (cell.params["fft"], 0.5)
    ours = [c for c in cells if c.method == "FFT, kmeans-kernel"]
    assert build_method(ours[0].method, ours[0].params)[0].power == 1.0


def test_both_readings_of_the_printed_spectrum_are_compared_with_fig_3():
    cells = load_paper("randomized-lssvm").cells
    found = {c.normalize for c in cells if c.source == "Sec. 4.1 on Fig. 3"}
    assert found == {"fourier-1d", "fourier-2d-root"}


def test_every_curve_of_the_solvers_has_three_seeds():
    cells = load_paper("randomized-lssvm").cells
    curves = [cell for cell in cells if cell.at_step is not None]
    assert curves
    assert all(len(cell.full_seeds) >= 3 for cell in curves)


def test_the_published_polynomial_has_an_offset_and_every_kernel_four_seeds():
    """Maia & Ara, eq. (10)."""
    cells = [c for c in load_paper("kernel-kmeans").cells if c.source == "Table 3"]
    assert all(len(cell.seeds) >= 4 for cell in cells)
    of_kernel = [c for c in cells if c.params["kernel"] == "poly"]
    assert {c.params.get("coef0", 0.0) for c in of_kernel} == {0.0, 1.0}
    printed = [c for c in of_kernel if c.published is not None]
    assert {c.params["coef0"] for c in printed} == {1.0}
    further = load_paper("kernel-kmeans").cells
    assert any(cell.params.get("kernel") == "sigmoid" for cell in further)
