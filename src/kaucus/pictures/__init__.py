"""Features of pictures from responses to patches: pure functions on arrays.

Patches, filters and cells; no estimators, labels or kernels.
"""

from kaucus.pictures._filters import (
    FilterBank,
    PixelRange,
    draw_patches,
    make_filters,
    pixel_range,
)
from kaucus.pictures._responses import (
    PRECISIONS,
    PictureFeatures,
    cell_windows,
    feature_bytes,
    features_of,
    n_positions,
    resolve_precision,
    responses_of,
)
