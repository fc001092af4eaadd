"""Arrays and devices: namespaces, linear algebra, random numbers, row blocks.

In come arrays of any library; out come arrays of the same library on the same
device. Knows no machine learning.
"""

from kaucus.backend._blocks import (
    Scratch,
    few_threads_for,
    for_each_block,
    interruptible,
    map_blocks,
    n_workers,
    one_blas_thread,
    reduce_blocks,
    row_blocks,
    symmetric_tiles,
    tile_shape,
    tiles,
)
from kaucus.backend._convolution import (
    box_means,
    convolve,
    convolve_by_products,
    convolve_each,
    patch_rows,
    window_means,
)
from kaucus.backend._gram import (
    add_cross_gram,
    add_gram,
    gram_bytes,
    mirror_lower,
    mirror_upper,
    restore_lower,
    zero_gram,
)
from kaucus.backend._host_rows import HostRows
from kaucus.backend._labels import (
    best_one,
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
    solve_triangular,
)
from kaucus.backend._look import Look, as_matrix, check_looks, longest_rows, look_at
from kaucus.backend._memory import (
    budget_to_have,
    format_bytes,
    parse_bytes,
    release_freed_memory,
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
    exp,
    get_entries,
    is_cupy,
    is_numpy,
    is_sparse,
    is_tensor,
    is_torch,
    itemsize,
    label_array,
    not_negative,
    on_gpu,
    owned,
    place_of,
    rows_in_order,
    set_columns,
    set_entries,
    sqrt,
    take_rows,
    tensor_near,
    to_device,
    to_numpy,
    without_history,
)
from kaucus.backend._precision import (
    PRECISIONS,
    add_product,
    product,
    product_epsilon,
    product_into,
    products_in,
    split_columns,
    times_split,
    wide_product,
    working_types,
)
from kaucus.backend._random import (
    draw_some,
    generator_from,
    random_normal,
    random_rows,
)
from kaucus.backend._row_source import (
    FAN_IN,
    BatchRows,
    Block,
    Handling,
    Held,
    RowSource,
    merged,
)
from kaucus.backend._streaming import (
    budget_without_buffers,
    copy_buffer_bytes,
    on_device_if_it_fits,
    rows_for_device,
    stream_blocks,
)
from kaucus.backend._warnings import warn_user
