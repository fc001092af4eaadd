"""Speed, memory and error against other libraries: ``python -m benchmarks NAME``."""
