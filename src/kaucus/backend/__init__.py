"""Arrays and devices: namespaces, linear algebra, random numbers, row blocks.

In come arrays of any library; out come arrays of the same library on the same
device. Knows no machine learning.
"""

from kaucus.backend._blocks import (
    few_threads_for,
    for_each_block,
    map_blocks,
    n_workers,
    one_blas_thread,
    reduce_blocks,
    row_blocks,
    symmetric_tiles,
    tile_shape,
    tiles,
)
from kaucus.backend._cross_gram import add_cross_gram
from kaucus.backend._elementwise import exp, sqrt
from kaucus.backend._gram import add_gram, mirror_lower, zero_gram
from kaucus.backend._labels import (
    best_two,
    count_labels,
    entries_at,
    rough_error,
    rough_inner_products,
    segment_sum,
)
from kaucus.backend._linalg import (
    CholeskyFactor,
    NotPositiveDefiniteError,
    add_to_diagonal,
    cho_solve,
    cholesky,
    cholesky_with_jitter,
    diagonal,
    eigh,
    inverse_diagonal,
    jitter_steps,
    restore_lower,
    solve_triangular,
)
from kaucus.backend._memory import (
    format_bytes,
    free_memory,
    parse_bytes,
    resolve_budget,
)
from kaucus.backend._namespace import (
    Array,
    add_to_rows,
    array_namespace,
    as_like,
    astype,
    concat_rows,
    dense_rows,
    device_is_here,
    device_name,
    device_of,
    dtype_name,
    epsilon,
    is_numpy,
    is_sparse,
    is_tensor,
    is_torch,
    itemsize,
    label_array,
    on_gpu,
    set_columns,
    set_entries,
    synchronize,
    take_rows,
    tensor_near,
    to_device,
    to_numpy,
    without_history,
)
from kaucus.backend._precision import (
    PRECISIONS,
    product,
    product_epsilon,
    products_in,
    working_types,
)
from kaucus.backend._random import generator_from, random_normal, random_rows
from kaucus.backend._split import split_columns, times_split, wide_product
from kaucus.backend._streaming import device_parts, iter_device_blocks, rows_on_device

__all__ = [
    # namespaces and devices
    "Array",
    "add_to_rows",
    "array_namespace",
    "as_like",
    "astype",
    "concat_rows",
    "device_is_here",
    "dense_rows",
    "device_name",
    "device_of",
    "dtype_name",
    "epsilon",
    "is_numpy",
    "is_sparse",
    "is_tensor",
    "is_torch",
    "itemsize",
    "on_gpu",
    "label_array",
    "set_columns",
    "set_entries",
    "synchronize",
    "take_rows",
    "tensor_near",
    "to_device",
    "to_numpy",
    "without_history",
    # functions that may work in place
    "exp",
    "sqrt",
    # linear algebra
    "CholeskyFactor",
    "NotPositiveDefiniteError",
    "add_cross_gram",
    "add_gram",
    "add_to_diagonal",
    "cho_solve",
    "cholesky",
    "cholesky_with_jitter",
    "diagonal",
    "eigh",
    "inverse_diagonal",
    "jitter_steps",
    "mirror_lower",
    "restore_lower",
    "solve_triangular",
    "split_columns",
    "times_split",
    "wide_product",
    "zero_gram",
    # labels
    "best_two",
    "count_labels",
    "entries_at",
    "rough_error",
    "rough_inner_products",
    "segment_sum",
    # blocks and memory
    "few_threads_for",
    "for_each_block",
    "format_bytes",
    "free_memory",
    "map_blocks",
    "n_workers",
    "one_blas_thread",
    "parse_bytes",
    "reduce_blocks",
    "resolve_budget",
    "row_blocks",
    "symmetric_tiles",
    "tile_shape",
    "tiles",
    # precision
    "PRECISIONS",
    "product",
    "product_epsilon",
    "products_in",
    "working_types",
    # to a device in blocks
    "device_parts",
    "iter_device_blocks",
    "rows_on_device",
    # random numbers
    "generator_from",
    "random_normal",
    "random_rows",
]
