"""The reason of an interval names the kind of fault that was made, in the variable that has it, with its numbers."""

import numpy as np
import pytest

import tsadc
from tsadc.detectors.reasons import Reason, reason_of
from tsadc.series import Clock, Series

MINUTES = Clock(0, 60 * 10**9, dated=True)
NAMES = ("flow", "speed", "tone")


def values_of(rows: int, seed: int):
    """Flow follows speed, and the tone oscillates with a period of 12 rows."""
    generator = np.random.default_rng(seed)
    speed = np.sin(np.arange(rows) / 25) + 0.3 * generator.normal(size=rows)
    flow = 30 + 2 * speed + 0.2 * generator.normal(size=rows)
    tone = np.sin(2 * np.pi * np.arange(rows) / 12) + 0.05 * generator.normal(size=rows)
    return np.stack([flow, speed, tone], axis=1)


@pytest.fixture(scope="module")
def detector():
    history = Series(values_of(3600, 0), NAMES, MINUTES, "pump")
    return tsadc.Ensemble(length=60, config=tsadc.Ensemble.Config(kernels=16)).fit(history)


def reason(detector, values, start, stop, *variables):
    (part,) = detector.detect(Series(values, NAMES, MINUTES, "pump")).parts
    return reason_of(part.usual, start, stop, variables)


def spoilt(start, stop, column, change):
    values = values_of(600, 1)
    values[start:stop, column] = change(values[start:stop, column])
    return values


def test_a_level_is_named_with_its_value_and_what_is_usual(detector):
    found = reason(detector, spoilt(200, 240, 0, lambda x: x - 9), 200, 240, "flow")
    assert (found.kind, found.variable, found.conditional) == ("level", "flow", True)
    assert found.value < found.low < found.high
    assert abs(found.stop - found.start - 40) <= 2
    words = found.sentence(MINUTES)
    assert words.startswith("flow 2")
    assert words.endswith(f"given the other variables. Low for {found.stop - found.start} min.")


def test_a_spike_is_far_outside_the_usual_range(detector):
    found = reason(detector, spoilt(210, 212, 0, lambda x: x + 30), 200, 230, "flow")
    assert (found.kind, found.start, found.stop) == ("spike", 210, 212)
    assert 55 < found.value < 65
    assert "far outside its usual range" in found.sentence(MINUTES)


def test_a_reason_quotes_the_measured_value_however_far_it_is(detector):
    found = reason(detector, spoilt(210, 211, 0, lambda x: x + 1e25), 200, 230, "flow")
    assert (found.kind, found.value) == ("spike", 1e25)


def test_a_stuck_sensor_is_named_for_as_long_as_it_is_stuck(detector):
    found = reason(detector, spoilt(200, 240, 0, lambda x: x[0]), 205, 225, "flow")
    assert (found.kind, found.start, found.stop) == ("stuck", 200, 240)
    assert "for 40 min; usually it changes at least every row." in found.sentence(MINUTES)


def test_less_variation_is_named(detector):
    found = reason(detector, spoilt(200, 250, 2, lambda x: 0.1 * x), 200, 250, "tone")
    assert found.kind == "spread"
    assert 0.05 < found.value < 0.2


def test_another_frequency_is_named(detector):
    faster = np.sin(2 * np.pi * np.arange(60) / 3)
    found = reason(detector, spoilt(200, 260, 2, lambda x: faster), 200, 260, "tone")
    assert found.kind == "frequency"
    assert 1.5 < found.value < 4


def test_a_lost_correlation_names_the_variable_that_was_followed(detector):
    found = reason(detector, spoilt(180, 260, 0, lambda x: x[::-1]), 180, 260, "flow")
    assert (found.kind, found.partner) == ("correlation", "speed")
    assert found.value < 0.6 < found.low
    assert "flow no longer follows speed: correlation" in found.sentence(MINUTES)


def test_missing_values_are_named(detector):
    values = spoilt(200, 240, 0, lambda x: np.where(np.arange(40) % 4, np.nan, x))
    found = reason(detector, values, 200, 240, "flow")
    assert (found.kind, found.value) == ("missing", 0.75)


def test_nothing_stands_out_in_normal_data(detector):
    assert reason(detector, values_of(600, 1), 200, 240, "flow", "tone") is None


def test_the_first_blamed_variable_that_stands_out_is_the_reason(detector):
    found = reason(detector, spoilt(200, 240, 0, lambda x: x - 9), 200, 240, "tone", "flow")
    assert found.variable == "flow"


def test_numbers_have_the_decimals_that_tell_them_apart():
    narrow = Reason("level", "pressure", 0, 5, 1015.27, 1013.11, 1013.42)
    assert narrow.sentence(MINUTES) == "pressure 1,015.3; usually 1,013.1 to 1,013.4. High for 5 min."
    wide = Reason("level", "flow", 0, 5, 23.4, 31.2, 33.1, conditional=True)
    assert wide.sentence(Clock()) == "flow 23.4; usually 31.2 to 33.1 given the other variables. Low for 5 rows."


def test_the_sentence_is_in_the_table_of_intervals(detector):
    result = detector.detect(Series(spoilt(200, 240, 0, lambda x: x - 9), NAMES, MINUTES, "pump"))
    worst = result.worst(1).iloc[0]
    assert worst["kind"] == "level"
    assert worst["reason"].startswith("flow 2")
    assert set(result.intervals["kind"]) <= {
        "level", "spike", "spread", "frequency", "correlation", "stuck", "missing", "other"
    }  # fmt: skip


def test_a_level_within_its_band_is_no_crash():
    """The mean of the windows is unusual, but no row leaves the band of single rows."""
    generator = np.random.default_rng(0)
    names = ("a", "b")
    history = Series(generator.normal(size=(24_000, 2)), names, MINUTES, "pump")
    detector = tsadc.Ensemble(length=1200, config=tsadc.Ensemble.Config(kernels=8)).fit(history)
    new = generator.normal(size=(2400, 2))
    new[:1200, 0] = 1.9 + 0.01 * generator.normal(size=1200)
    (part,) = detector.detect(Series(new, names, MINUTES, "pump")).parts
    found = reason_of(part.usual, 0, 1200, ["a"])
    assert (found.kind, found.variable) == ("spread", "a")
    assert found.sentence(MINUTES).startswith("a varies ")
    assert "times less than usual" in found.sentence(MINUTES)
