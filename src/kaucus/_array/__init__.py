"""Arrays and devices: namespaces, linear algebra, random numbers, row blocks.

In come arrays of any library; out come arrays of the same library on the same
device. Knows no machine learning.
"""
