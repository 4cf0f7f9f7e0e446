"""Anomalies in multivariate sensor data when the training data itself is contaminated."""
