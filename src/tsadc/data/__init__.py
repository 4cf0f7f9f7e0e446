"""Labelled data: the simulated plant, public data sets, your own, and contaminated draws from them."""

from tsadc.data.catalogue import CATALOGUE, prepare
from tsadc.data.contaminate import ContaminationSpec, Draw, contaminate
from tsadc.data.labelled import prepare_own
from tsadc.data.prepared import Prepared, load

__all__ = ["CATALOGUE", "ContaminationSpec", "Draw", "Prepared", "contaminate", "load", "prepare", "prepare_own"]
