"""Two sets of rows in, their kernel matrix (or its product with V) out.

Nothing is fitted here.
"""
