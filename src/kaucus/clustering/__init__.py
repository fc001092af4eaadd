"""Clustering: k-means, kernel k-means, landmarks.

Seeding, k-means in the cosine and the euclidean geometry and in the feature space of a
kernel, landmarks, pivoted Cholesky factors; nothing is predicted here.
"""
