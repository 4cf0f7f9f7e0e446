"""Detectors that look at features of a whole observation: its energy, spectrum, correlations and shapes."""
