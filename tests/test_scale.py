import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc import scale as scale_module
from tsadc import series as series_module
from tsadc.errors import DataError, TsadcNotice
from tsadc.scale import MAX_VALUES, Scaler
from tsadc.series import Series

NAMES = ("a", "b", "c")
methods = st.sampled_from(["robust", "standard"])
scopes = st.sampled_from(["entity", "pooled"])
seeds = st.integers(0, 999)


def series(values: np.ndarray, entity: str = "m") -> Series:
    return Series(values, NAMES[: values.shape[1]], entity=entity)


def history(seed: int, entities: int = 2, gaps: float = 0.1) -> tuple[Series, ...]:
    rng = np.random.default_rng(seed)
    out = []
    for i in range(entities):
        values = rng.normal(rng.normal(size=3) * 5, [1, 10, 0.01], (50, 3))
        values[rng.random(values.shape) < gaps] = np.nan
        out.append(series(values, f"m{i}"))
    return tuple(out)


def slow_statistics(columns: list[np.ndarray], floor: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
    center, scale = [], []
    for column, least in zip(columns, floor, strict=True):
        if method == "robust":
            low, middle, high = np.percentile(column, [25, 50, 75])
            center.append(middle)
            scale.append(max((high - low) / 1.349, 0.2 * column.std(), least))
        else:
            center.append(column.mean())
            scale.append(column.std())
    return np.array(center), np.array(scale)


@given(seeds, methods)
def test_statistics_against_a_slow_definition(seed, method):
    every = history(seed)
    scaler = Scaler.fit(every, Scaler.Config(method=method))
    pooled = np.concatenate([one.values for one in every])
    columns = [column[~np.isnan(column)] for column in pooled.T]
    floor = np.array([0.01 * (column.max() - column.min()) for column in columns])
    np.testing.assert_allclose(scaler.floor, floor)
    parts = [(scaler.pooled, columns)]
    parts += [(scaler.entities[o.entity], [c[~np.isnan(c)] for c in o.values.T]) for o in every]
    for own, known in parts:
        center, scale = slow_statistics(known, floor, method)
        np.testing.assert_allclose(own.center, center)
        np.testing.assert_allclose(own.scale, scale)


@given(seeds, methods, scopes)
def test_undo_is_the_inverse(seed, method, scope):
    every = history(seed)
    scaler = Scaler.fit(every, Scaler.Config(method, scope))
    for one in every:
        back = scaler.undo(one.entity, scaler(one.entity, one.values))
        np.testing.assert_allclose(back, one.values, rtol=1e-9, atol=1e-9)


@given(seeds, methods, scopes)
def test_the_mapping_survives_json_to_the_bit(seed, method, scope):
    every, config = history(seed), Scaler.Config(method, scope)
    scaler = Scaler.fit(every, config)
    again = Scaler.from_mapping(json.loads(json.dumps(scaler.to_mapping())), config)
    for entity in ("m0", "m1", "never seen"):
        np.testing.assert_array_equal(again(entity, every[0].values), scaler(entity, every[0].values))
    assert again.floor.tobytes() == scaler.floor.tobytes()


@given(
    seeds,
    methods,
    scopes,
    st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3),
    st.lists(st.floats(-100, 100), min_size=3, max_size=3),
)
def test_z_does_not_depend_on_units(seed, method, scope, factor, offset):
    every, config = history(seed), Scaler.Config(method, scope)
    other = tuple(Series(one.values * factor + offset, one.names, one.clock, one.entity) for one in every)
    plain, changed = Scaler.fit(every, config), Scaler.fit(other, config)
    for one, two in zip(every, other, strict=True):
        np.testing.assert_allclose(changed(two.entity, two.values), plain(one.entity, one.values), atol=1e-6)


@given(seeds)
def test_an_entity_it_has_not_met_is_scaled_by_the_pooled_statistics(seed):
    every = history(seed)
    values = every[0].values
    by_entity, pooled = (Scaler.fit(every, Scaler.Config(scope=scope)) for scope in ("entity", "pooled"))
    np.testing.assert_array_equal(by_entity("new", values), pooled("m0", values))
    assert not np.array_equal(by_entity("m0", values), pooled("m0", values), equal_nan=True)
    assert pooled.entities == {}


def test_adapting_gives_an_entity_its_own_statistics_and_leaves_the_others():
    every = history(0)
    scaler = Scaler.fit(every, Scaler.Config())
    before = scaler("m0", every[0].values)
    new = Series(every[1].values + 7, NAMES, entity="new")
    scaler.adapt([new])
    np.testing.assert_allclose(scaler("new", new.values), scaler("m1", every[1].values))
    np.testing.assert_array_equal(scaler("m0", every[0].values), before)


def test_a_variable_that_one_entity_never_measures_is_scaled_by_the_pooled_statistics():
    one, two = history(0, gaps=0)
    two.values[:, 1] = np.nan
    scaler = Scaler.fit((one, two), Scaler.Config())
    assert scaler.entities["m1"].center[1] == scaler.pooled.center[1]
    assert scaler.entities["m1"].scale[1] == scaler.pooled.scale[1]
    assert np.isfinite(scaler.entities["m1"].center).all()


def test_a_variable_that_nobody_measures_is_refused():
    values = np.ones((5, 2))
    values[:, 1] = np.nan
    with pytest.raises(DataError, match="b has no values in the history; leave it out with --columns"):
        Scaler.fit([series(values)], Scaler.Config())
    with pytest.raises(DataError, match="a, b have no values in the history; leave them out with --columns"):
        Scaler.fit([series(np.full((5, 2), np.nan))], Scaler.Config())


@pytest.mark.parametrize("method", ["robust", "standard"])
@pytest.mark.parametrize(("value", "unit"), [(0.1, 0.001), (-50.0, 0.5), (0.0, 1.0)])
def test_a_constant_is_scaled_by_its_size(method, value, unit):
    # 0.1 has a mean that is not 0.1: the deviation from it must not become the scale.
    values = np.column_stack([np.full(1000, value), np.arange(1000.0)])
    scaler = Scaler.fit([series(values)], Scaler.Config(method=method))
    assert scaler.constant.tolist() == [True, False]
    assert scaler.pooled.scale[0] == pytest.approx(unit)
    assert scaler("m", values)[:, 0] == pytest.approx(0)


def test_the_floor_keeps_a_nearly_constant_variable_from_exploding():
    still = np.zeros(1000)
    still[0] = 1.0
    scaler = Scaler.fit([series(np.column_stack([still, still]))], Scaler.Config())
    assert np.abs(scaler("m", np.ones((1, 2)))).max() <= 100


def test_the_smallest_floats_have_a_scale_too():
    values = np.array([[0.0, 0.0], [5e-324, 1.0]])
    assert (Scaler.fit([series(values)], Scaler.Config()).pooled.scale > 0).all()


def test_a_slow_variable_is_not_missed_in_a_long_series():
    rows = 2 * MAX_VALUES
    values = np.zeros((rows, 2), dtype=np.float32)
    values[::2, 1] = np.nan  # measured at every other row, which are those that sampling rows would skip
    values[1::2, 1] = np.arange(rows // 2) % 10
    values[7, 0] = 1.0  # moves once
    scaler = Scaler.fit([series(values)], Scaler.Config())
    assert scaler.constant.tolist() == [False, False]
    assert scaler.pooled.center[1] == 4.5


def test_an_absurd_value_is_refused():
    values = np.array([[0.0, 1.0], [1.0, -1e300]])
    with pytest.raises(DataError, match=r"Variable 'b' reaches 1e\+300 in the history, which no sensor measures"):
        Scaler.fit([series(values)], Scaler.Config())


@given(seeds, methods, st.integers(1, 200), st.integers(3, 40), st.integers(1, 3))
def test_statistics_do_not_depend_on_how_the_data_is_passed_over(seed, method, chunk, most, together):
    every = history(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale_module, "MAX_VALUES", most)
        whole = Scaler.fit(every, Scaler.Config(method=method)).to_mapping()
        pooled = np.concatenate([one.values for one in every])
        for k, column in enumerate(pooled.T):
            known = column[~np.isnan(column)]
            known = known[:: -(-len(known) // most)]
            center = np.median(known) if method == "robust" else np.mean(known)
            assert whole["pooled"]["center"][k] == pytest.approx(center, rel=1e-12)
        patch.setattr(series_module, "CHUNK_CELLS", chunk)
        patch.setattr(scale_module, "VARIABLES_PER_PASS", together)
        assert Scaler.fit(every, Scaler.Config(method=method)).to_mapping() == whole


def test_what_never_moves_is_named_and_a_history_without_movement_refused():
    moving = np.arange(20.0)
    one = Scaler.fit([series(np.column_stack([moving, np.full(20, 7.0), moving]))], Scaler.Config())
    expected = r"^Constant throughout the history: b; any change will count as unusual, if the detector judges it\.$"
    with pytest.warns(TsadcNotice, match=expected):
        one.check_constant(NAMES)
    Scaler.fit([series(np.column_stack([moving] * 3))], Scaler.Config()).check_constant(NAMES)
    still = Scaler.fit([series(np.ones((20, 3)))], Scaler.Config())
    with pytest.raises(DataError, match="Every variable of the history is constant"):
        still.check_constant(NAMES)
