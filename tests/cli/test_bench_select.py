"""What `--only` takes: keys with values, several of a key, names that hold commas."""

import pytest

from tsadc.bench.job import Job
from tsadc.cli.bench_select import selected, traits_of
from tsadc.errors import ConfigError

KNOWN = [{"data": {"a"}, "detector": {"x", "one, other"}, "seed": {"0"}}, {"data": {"b"}, "detector": {"y"}}]


def chosen(*only: str) -> list[int]:
    return selected([1, 2], KNOWN, only, "The plan has")


def test_values_of_a_key_add_up_and_keys_narrow_down() -> None:
    assert chosen() == [1, 2]
    assert chosen("data=a") == chosen("detector=one, other") == chosen("seed=0.0") == [1]
    assert chosen("data=a,data = b") == chosen("data=a", "data=b") == [1, 2]
    assert chosen("data=b, detector=x") == []


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("a", "--only takes key=value, separated by commas, but got 'a'."),
        ("dat=a", "--only has no key 'dat'; did you mean `data`?"),
        ("data=c", "The plan has no data 'c'"),
    ],
)
def test_what_is_not_there_is_refused(only: str, words: str) -> None:
    with pytest.raises(ConfigError, match="^" + words.replace("?", r"\?")):
        chosen(only)


def test_a_job_is_known_by_all_its_names() -> None:
    found = traits_of(Job("plant", "usad", 3, overrides={"scoring": "own"}, split={"eta": 0.1}, label="mine"))
    assert found["detector"] == {"usad", "usad scoring=own", "mine"}
    assert (found["data"], found["seed"], found["eta"], found["scoring"]) == ({"plant"}, {"3"}, {"0.1"}, {"own"})
    assert "scoring" not in traits_of(Job("plant", "random", 0))
