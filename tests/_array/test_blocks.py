"""Blocks cover everything once; threads change nothing but the time."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import ThreadpoolController, threadpool_limits

from kaucus._array.blocks import (
    Scratch,
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
from tests.arrays import array, same_bits

sizes = st.integers(1, 40)


def blas_threads():
    controller = ThreadpoolController().select(user_api="blas")
    return [lib.num_threads for lib in controller.lib_controllers]


@given(st.integers(0, 100), st.integers(0, 50), st.integers(0, 500))
def test_row_blocks_cover_each_row_once_within_the_budget(n, bytes_per_row, budget):
    blocks = list(row_blocks(n, bytes_per_row, budget))
    assert [i for s in blocks for i in range(s.start, s.stop)] == list(range(n))
    for s in blocks:
        assert (s.stop - s.start) * bytes_per_row <= budget or s.stop - s.start == 1


@given(sizes, sizes, sizes, sizes)
def test_tiles_cover_each_entry_once(n, m, height, width):
    seen = np.zeros((n, m), dtype=int)
    for rows, columns in tiles((n, m), (height, width)):
        seen[rows, columns] += 1
        assert rows.stop <= n
        assert columns.stop <= m
        assert rows.stop - rows.start <= height
        assert columns.stop - columns.start <= width
    assert np.all(seen == 1)


@given(sizes, sizes, sizes)
def test_symmetric_tiles_cover_the_upper_half_once(n, height, width):
    seen = np.zeros((n, n), dtype=int)
    for rows, columns in symmetric_tiles(n, (height, width)):
        tile_height = rows.stop - rows.start
        tile_width = columns.stop - columns.start
        seen[rows, columns] += 1
        assert rows.stop <= n
        assert columns.stop <= n
        assert tile_height * tile_width <= height * width
        if columns.start == rows.start:  # the square on the diagonal is whole
            assert columns.stop >= rows.stop
            square = slice(rows.start, rows.stop)
            seen[rows, square] -= np.tri(tile_height, k=-1, dtype=int)
        else:  # nothing of the diagonal
            assert columns.start >= rows.stop
    assert np.array_equal(seen, np.triu(np.ones((n, n), dtype=int)))


@given(st.integers(1, 20_000), st.integers(1, 2**34), st.sampled_from([1, 8]))
def test_tiles_at_work_stay_within_the_budget(n_columns, budget, threads):
    with threadpool_limits(threads, user_api="blas"):
        X = np.zeros((2, 2))
        height, width = tile_shape(X, n_columns, budget)
        workers = n_workers(X)
    assert height >= 1
    assert 1 <= width <= n_columns
    assert height * width * 8 * workers <= budget or height * width <= 256


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_map_blocks_keeps_the_order(workers):
    assert list(map_blocks(lambda i: i * i, range(50), workers=workers)) == [
        i * i for i in range(50)
    ]
    assert list(map_blocks(lambda i: i, [], workers=workers)) == []


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_map_blocks_looks_ahead_no_further_than_it_says(workers):
    taken = []

    def source():
        for i in range(30):
            taken.append(i)
            yield i

    for n_consumed, _ in enumerate(map_blocks(abs, source(), workers=workers), 1):
        assert len(taken) <= n_consumed + workers


def test_map_blocks_really_works_in_threads():
    # Two calls that wait for each other can only both return in two threads.
    barrier = threading.Barrier(2, timeout=60)
    results = list(map_blocks(lambda i: barrier.wait() >= 0, range(2), workers=2))
    assert results == [True, True]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_errors_in_a_block_reach_the_caller(workers):
    before = blas_threads()

    def fail_at_three(i):
        if i == 3:
            raise RuntimeError("block 3")
        return i

    seen = []
    results = map_blocks(fail_at_three, range(1000), workers=workers)
    with pytest.raises(RuntimeError, match="block 3"):
        seen.extend(results)  # extends item by item
    assert seen == [0, 1, 2]
    assert blas_threads() == before


@pytest.mark.parametrize("workers", [2, 4])
def test_after_an_error_the_rest_is_not_begun(workers):
    begun = []

    def fail(i):
        begun.append(i)
        raise RuntimeError("at once")

    with pytest.raises(RuntimeError):
        list(map_blocks(fail, range(1000), workers=workers))
    assert len(begun) <= workers + 1


@pytest.mark.parametrize("workers", [1, 3])
def test_map_blocks_can_be_left_early(workers):
    before = blas_threads()
    results = map_blocks(abs, range(100), workers=workers)
    assert next(results) == 0
    del results
    assert blas_threads() == before


def test_sums_over_blocks_have_the_same_bits_for_any_number_of_workers(rng, dtype):
    A = rng.normal(size=(300, 40)).astype(dtype)
    B = rng.normal(size=(40, 30)).astype(dtype)

    def total(workers):
        return reduce_blocks(
            lambda s: np.exp(A[s] @ B).sum(axis=0),
            row_blocks(300, 1, 7),
            np.add,
            workers=workers,
        )

    with one_blas_thread():
        expected = total(1)
    for workers in (2, 3, 4):
        assert same_bits(total(workers), expected)


@pytest.mark.parametrize("workers", [1, 3])
def test_for_each_block_visits_every_block(workers):
    out = np.zeros(20)

    def fill(s):
        out[s] += np.arange(20)[s]

    for_each_block(fill, row_blocks(20, 1, 3), workers=workers)
    assert np.array_equal(out, np.arange(20))


@pytest.mark.parametrize("limit", [1, 2])
def test_n_workers_respects_thread_limits(limit):
    with threadpool_limits(limit, user_api="blas"):
        assert n_workers() == n_workers(np.zeros(1)) == max(blas_threads()) <= limit


def test_other_libraries_have_threads_of_their_own(xp):
    like = array(xp, [1.0])
    assert n_workers(like) == (n_workers() if isinstance(like, np.ndarray) else 1)


def test_one_blas_thread_restores_what_was_there():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert blas_threads() == before
        with pytest.raises(RuntimeError, match="inside"), one_blas_thread():
            raise RuntimeError("inside")
        assert blas_threads() == before


def test_overlapping_users_do_not_leave_blas_with_one_thread():
    """Two fits in two threads: the first to begin is the first to end."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


@given(st.lists(st.tuples(sizes, sizes), min_size=1), st.sampled_from(["f4", "f8"]))
def test_scratch_is_one_piece_of_memory_as_large_as_was_asked_for(shapes, dtype):
    scratch, largest = Scratch(), None
    for shape in shapes:
        out = scratch.empty(shape, np.dtype(dtype))
        assert out.shape == shape
        assert out.dtype == dtype
        out[:] = 1.0  # may be written
        if largest is not None and out.nbytes <= largest.nbytes:
            assert np.shares_memory(out, largest)
        else:
            largest = out


def test_threads_do_not_share_their_scratch():
    scratch, found = Scratch(), []
    mine = scratch.empty((8, 8), np.dtype("f8"))
    thread = threading.Thread(
        target=lambda: found.append(scratch.empty((8, 8), np.dtype("f8")))
    )
    thread.start()
    thread.join()
    assert not np.shares_memory(mine, found[0])
