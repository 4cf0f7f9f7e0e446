from dataclasses import dataclass
from typing import ClassVar, Self

import pytest

from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError


@dataclass(frozen=True)
class Config(Common):
    presets: ClassVar[tuple[str, ...]] = ("long",)

    @classmethod
    def long(cls) -> Self:
        return cls.with_settings(length=9000, scaler={"scope": "pooled"})


def test_presets_by_name() -> None:
    assert Config.preset("default") == Config()
    made = Config.preset("long")
    assert (made.length, made.scaler.scope, made.seed) == (9000, "pooled", 0)
    with pytest.raises(ConfigError, match="A preset must be one of default, long, but got 'short'"):
        Config.preset("short")
    with pytest.raises(ConfigError, match="This detector has only the preset `default`, but got 'long'"):
        Common.preset("long")


def test_a_number_where_contamination_is_estimated() -> None:
    assert Common().assumed_contamination == 0.1
    assert Common(contamination=0.3).assumed_contamination == 0.3


def test_sections_may_be_given_as_mappings() -> None:
    assert Config(scaler={"scope": "pooled"}) == Config.with_settings(scaler={"scope": "pooled"})
    with pytest.raises(ConfigError, match=r"did you mean `threshold\.method`"):
        Config(threshold={"methd": "tail"})
