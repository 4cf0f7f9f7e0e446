import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Clock, Series
from tsadc.variables import match, unnamed


def series(*names: str, entity: str = "pump") -> Series:
    values = np.tile(np.array([float(sum(map(ord, name))) for name in names]), (4, 1))
    return Series(values, names, Clock(5, 2, dated=True), entity)


@given(st.permutations(["flow", "heat", "load", "speed"]))
def test_variables_are_put_into_order_by_name(names):
    expected = series("flow", "heat", "load", "speed")
    (found,) = match([series(*names)], expected.names)
    assert found.names == expected.names
    np.testing.assert_array_equal(found.values, expected.values)
    assert (found.clock, found.entity) == (expected.clock, expected.entity)


def test_extra_variables_are_left_out_with_a_notice():
    with pytest.warns(TsadcNotice, match=r"'pump' has extra variables, which were left out: heat, load\."):
        (found,) = match([series("heat", "b", "load", "a")], ("a", "b"))
    np.testing.assert_array_equal(found.values, series("a", "b").values)


def test_a_missing_variable_is_named_with_the_nearest_there_is():
    with pytest.raises(DataError) as caught:
        match([series("flow", "presure")], ("flow", "pressure"))
    assert str(caught.value) == ("'pump' lacks 1 of the 2 expected variables: pressure; did you mean 'presure'?")


def test_many_missing_variables_are_counted_and_some_named():
    names = tuple(f"v{i}" for i in range(9))
    with pytest.raises(
        DataError, match=r"lacks 8 of the 9 expected variables: v1, v2, v3, v4, v5 and 3 more; add these columns"
    ):
        match([series("v0", "x")], names)


def test_the_columns_of_a_bare_array_count_by_position():
    bare = Series(np.arange(6.0).reshape(3, 2), unnamed(2), Clock(), "m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = match([bare], ("x", "y"))
    assert found.names == ("x", "y")
    assert found.values is bare.values
    with pytest.raises(DataError, match="'m' has 2 variables, but 3 are expected"):
        match([bare], ("x", "y", "z"))


def test_a_frame_for_a_model_of_a_bare_array_is_refused_with_the_fix():
    with pytest.raises(DataError, match="names for the columns of an array, so pass an array here too"):
        match([series("x", "y")], unnamed(2))


def test_a_missing_variable_counts_as_not_measured_unless_too_many_are_missing():
    expected = (
        r"'pump' lacks 1 of the 3 expected variables: heat; it counts as not measured, and scores may differ from usual"
    )
    with pytest.warns(TsadcNotice, match=expected):
        (found,) = match([series("load", "flow")], ("flow", "heat", "load"))
    assert found.names == ("flow", "heat", "load")
    np.testing.assert_array_equal(found.values[:, [0, 2]], series("flow", "load").values)
    assert np.isnan(found.values[:, 1]).all()
    with pytest.raises(DataError, match=r"lacks 1 of the 3 expected variables: heat; add the column"):
        match([series("load", "flow")], ("flow", "heat", "load"), strict=True)
    with pytest.raises(DataError, match=r"lacks 2 of the 3 expected variables: flow, heat; add these columns"):
        match([series("load")], ("flow", "heat", "load"))


def test_only_a_variable_that_is_left_over_can_be_meant():
    with pytest.raises(DataError, match=r"expected variables: v2; did you mean 'V2'\?$"):
        match([series("v1", "V2", "v3")], ("v1", "v2", "v3"))
    with pytest.raises(DataError, match=r"expected variables: v2; add the column, or rename the one that holds it\.$"):
        match([series("v1", "v3")], ("v1", "v2", "v3"), strict=True)


def test_a_sensor_of_another_number_does_not_stand_for_a_missing_one():
    expected = ("temp_1", "flow", "load")
    said = "temp_1; it counts as not measured.* 'temp_11' has nearly the same name as 'temp_1'; rename it if"
    with pytest.warns(TsadcNotice) as notices:
        (found,) = match([series("temp_11", "flow", "load")], expected)
    assert re.search(said, str(notices[0].message))
    assert np.isnan(found.values[:, 0]).all()
    with pytest.raises(DataError, match=r"did you mean 'temp_01'\?$"):
        match([series("temp_01", "flow", "load")], expected)


@pytest.mark.filterwarnings("ignore:.*has extra variables")
def test_a_near_name_is_refused_only_if_as_many_are_extra_as_missing():
    expected = ("flow", "pressure", "load", "heat")
    with pytest.warns(TsadcNotice, match="'presure' has nearly the same name as 'pressure'"):
        match([series("flow", "presure", "load", "heat", "speed")], expected)
    with pytest.raises(DataError, match=r"variables: flow, pressure; did you mean 'presure' instead of 'pressure'\?$"):
        match([series("speed", "presure", "load", "heat")], expected)
    with pytest.warns(TsadcNotice, match="lacks 1 of the 4 expected variables: heat; it counts as not measured"):
        match([series("flow", "pressure", "load", "sweat")], expected)
