"""Detectors without a network: one small file each."""
