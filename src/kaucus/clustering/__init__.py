"""Rows in, a few rows or centres that represent them out.

Seeding, k-means in the cosine and the euclidean geometry and in the feature space of a
kernel, landmarks, pivoted Cholesky factors; nothing is predicted here.
"""
