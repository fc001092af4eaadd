"""Rows in Dask partitions: the accumulators of the core over Dask's tasks.

The only layer that imports dask. Tasks go to the current client if there is one, else
to Dask's local scheduler; no cluster is started here.
"""
