"""Dask's schedulers that need no cluster."""

import pytest


@pytest.fixture(params=["synchronous", "threads"])
def scheduler(request):
    """Each of the schedulers that need no cluster."""
    import dask

    with dask.config.set(scheduler=request.param):
        yield request.param
