"""Steps in C: an optional library, compiled when the package is installed, for x86-64 processors with AVX2 or AVX-512.

Where it is missing, PyTorch computes the same numbers, to rounding.
"""
