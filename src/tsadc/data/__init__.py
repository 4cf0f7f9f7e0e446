"""Data with a truth: the simulated plant, the paper's four data sets with open stand-ins, and draws from them."""

from tsadc.data.catalogue import CATALOGUE, prepare
from tsadc.data.contaminate import Draw, Plan, contaminate
from tsadc.data.labelled import prepare_own
from tsadc.data.prepared import Prepared, load

__all__ = ["CATALOGUE", "Draw", "Plan", "Prepared", "contaminate", "load", "prepare", "prepare_own"]
