"""Benchmarks: the only place where data, detectors and evaluation meet. A plan names jobs; each leaves one record."""
