import pytest

from tsadc.subsample import evenly_spaced


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(3, 5, [0, 1, 2]), (5, 5, [0, 1, 2, 3, 4]), (11, 3, [0, 5, 10]), (1, 4, [0]), (100, 4, [0, 33, 66, 99])],
)
def test_places_are_spread_from_the_first_to_the_last(count, most, expected):
    assert evenly_spaced(count, most).tolist() == expected


@pytest.mark.parametrize("count", [33, 64, 65, 127, 1000])
def test_none_is_chosen_twice(count):
    assert len(evenly_spaced(count, 64)) == min(count, 64)
