"""TSAD-C: the Decontaminator, the model of dependencies, and the score made of their residuals."""
