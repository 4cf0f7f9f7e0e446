"""The examples in the docstrings of the metrics and of `tsadc.data` run and give what they show."""

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import tsadc.data
import tsadc.evaluate

MODULES = [
    importlib.import_module(f"{package.__name__}.{module.name}")
    for package in (tsadc.data, tsadc.evaluate)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_run(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
