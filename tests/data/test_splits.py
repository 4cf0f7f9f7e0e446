import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsadc.data.contaminate import PARTS, split_entities
from tsadc.errors import ConfigError, DataError

OBSERVATION = st.sampled_from([(), (), ("x",), ("y",)])
ENTITIES = st.lists(st.lists(OBSERVATION, min_size=1, max_size=4), min_size=3, max_size=12)
SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@SLOW
@given(ENTITIES, st.integers(0, 5))
def test_every_entity_is_in_exactly_one_part(prepared_of, observations, seed):
    prepared = prepared_of({f"e{i}": one for i, one in enumerate(observations)})
    parts = split_entities(prepared, seed=seed)
    assert list(parts) == list(PARTS)
    assert sorted(entity for part in parts.values() for entity in part) == sorted(prepared.entities)
    assert all(parts.values())
    assert split_entities(prepared, seed=seed) == parts


def test_parts_have_their_share_of_observations_and_of_kinds(prepared_of):
    kinds = {f"e{i:02d}": [(), ("x",) if i % 3 == 0 else ()] for i in range(60)}
    parts = split_entities(prepared_of(kinds), (0.5, 0.25, 0.25), seed=3)
    assert [len(part) for part in parts.values()] == [30, 15, 15]
    assert [sum(int(entity[1:]) % 3 == 0 for entity in part) for part in parts.values()] == [10, 5, 5]


def test_a_large_entity_counts_for_what_it_is(prepared_of):
    prepared = prepared_of({"large": [()] * 70, **{f"e{i}": [()] * 5 for i in range(6)}})
    every = set()
    for seed in range(20):
        parts = split_entities(prepared, (0.7, 0.15, 0.15), seed)
        sizes = [sum(len(prepared.labels[entity]) for entity in members) for members in parts.values()]
        assert "large" in parts["train"]
        every.add(tuple(sizes))
    # The sooner it comes in the random order, the less joins it.
    assert every == {(70, 15, 15), (75, 15, 10), (80, 10, 10), (85, 10, 5), (90, 5, 5)}


def test_another_seed_gives_other_parts(prepared_of):
    prepared = prepared_of({f"e{i}": [()] for i in range(20)})
    assert split_entities(prepared, seed=0) != split_entities(prepared, seed=1)


def test_what_cannot_be_split_is_refused(prepared_of):
    with pytest.raises(DataError, match="has 2 entities, but train, validation and test need one each"):
        split_entities(prepared_of({"a": [()], "b": [()]}))
    with pytest.raises(ConfigError, match="shares"):
        split_entities(prepared_of({"a": [()], "b": [()], "c": [()]}), (1.0, 0.0, 0.0))
