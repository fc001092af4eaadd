"""The Kaczmarz-MP hybrid as the paper prints it, which diverges; for the figure."""

from kaucus import LSSVMClassifier


class PrintedHybrid(LSSVMClassifier):
    """``solver="kaczmarz_mp"`` without the lengths that make it safe."""

    def _block_options(self, X, Y, validation) -> dict:
        return {**super()._block_options(X, Y, validation), "safeguard": False}
