import importlib.metadata
import subprocess
import sys

import pytest

import tsadc
from tsadc import errors


def test_the_public_names() -> None:
    assert set(tsadc.__all__) == {
        "TSADC", "Audit", "Calendar", "ConfigError", "DataError", "Decontaminator", "Ensemble", "ModelFileError",
        "NotFittedError", "OutputError", "Reading", "Result", "Series", "Stream", "TsadcError", "TsadcNotice", "audit",
        "examine", "load", "read",
    }  # fmt: skip
    for name in tsadc.__all__:
        assert name in dir(tsadc)
        assert getattr(tsadc, name).__name__ == name
    assert tsadc.DataError is errors.DataError


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tsadc' has no attribute 'TSADD'"):
        _ = tsadc.TSADD


def test_the_version_is_the_packages() -> None:
    assert tsadc.__version__ == importlib.metadata.version("tsadc")


def test_import_costs_nothing_heavy() -> None:
    script = (
        "import sys, tsadc; print({'torch', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)); tsadc.TsadcError;"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "False"]
