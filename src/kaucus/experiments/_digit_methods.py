"""The classifiers of digits of Andrecut (2020), as the paper sets them.

⟨x, x'⟩⁴ on unit rows, ε = 10⁻⁶, k-means by angle from random rows. What each of them
has in common is here, so that a table's cell names only what it varies.
"""

from typing import Any

SIDES = (28, 28)


def raw(n_representatives: int, **options: Any) -> Any:
    """Pixels, of unit norm (eq. 21-22)."""
    from kaucus.preprocessing import UnitNormalizer

    return _pipeline(UnitNormalizer(), classifier(n_representatives, **options))


def fourier(
    n_representatives: int, fft: str = "2d", power: float = 1.0, **options: Any
) -> Any:
    """Pixels and the first half of their spectrum (eq. 15-20), of unit norm.

    The transform of the picture and the modulus without a square root are the better
    of the readings of Sec. 3 (exact LS-SVM: 0.97 % against 1.07 %).
    """
    from kaucus.preprocessing import FourierFeatures

    features = FourierFeatures(SIDES, fft=fft, power=power)
    return _pipeline(features, classifier(n_representatives, **options))


def patches(
    n_representatives: int,
    patch_size: int = 25,
    voting: str = "majority",
    fourier: bool = False,
    sides: tuple[int, int] = SIDES,
    **options: Any,
) -> Any:
    """Let all patches vote (Sec. 4); with ``fourier=True`` on their spectra too."""
    from kaucus import PatchVotingClassifier
    from kaucus.preprocessing import FourierFeatures, UnitNormalizer

    spectrum = FourierFeatures((patch_size, patch_size), fft="2d", power=1.0)
    features = spectrum if fourier else UnitNormalizer()
    return PatchVotingClassifier(
        _pipeline(features, classifier(n_representatives, **options)),
        patch_size=patch_size,
        image_shape=sides,
        voting=voting,
    )


def classifier(
    n_representatives: int, fit_on: str = "representatives", C: float = 1e6
) -> Any:
    """Return the classifier alone, for features of unit norm."""
    from kaucus import KMeansKernelClassifier

    return KMeansKernelClassifier(
        n_representatives,
        metric="cosine",
        fit_on=fit_on,
        kernel="poly",
        degree=4,
        gamma=1.0,
        coef0=0.0,
        C=C,
        probability=False,
    )


def _pipeline(features: Any, classifier: Any) -> Any:
    from sklearn.pipeline import make_pipeline

    return make_pipeline(features, classifier)
