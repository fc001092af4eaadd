"""Small systems gain nothing from threads, and wait for them on a busy machine."""

import importlib.util

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    with threadpool_limits(1):
        if importlib.util.find_spec("torch") is None:
            yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)
