"""Data with a truth: the simulated plant, the paper's four data sets with open stand-ins, and draws from them."""
