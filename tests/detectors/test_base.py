"""The steps every detector's `fit` and `detect` go through; what holds for all detectors is in test_contract."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors.base import Detector, ScoringProgress
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.preparation import hold_out
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.detectors.store import RENAMED_SETTINGS
from tsadc.detectors.threshold import Contamination, Normal, Threshold
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.errors import ConfigError, DataError, NotFittedError, TsadcNotice
from tsadc.scale import Scaler
from tsadc.series import Clock, Observations, Series


class Largest(Detector):
    """Scores an observation by its largest z, and remembers what it was given."""

    name = "largest"

    def _fit(self, train, validation, options):
        self.train_, self.validation_, self.options_ = train, validation, options

    def _score(self, observations):
        for i in range(len(observations)):
            z = observations.read(i)
            steps = np.fmax.reduce(z, axis=0)
            score = float(np.nanmax(steps))
            yield Evidence(score, {"size": score}, steps, np.abs(z), np.zeros_like(steps), z)

    def _state(self):
        return {}

    def _restore(self, state):
        pass


def noise(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 3))


def places(observations: Observations) -> set[tuple[int, int]]:
    return {(place.series, place.start) for place in observations.places}


def test_the_parts_are_disjoint_and_together_are_everything():
    history = {"a": noise(160), "b": noise(80, 1)}
    detector = Largest(length=8, seed=4, config=Common(validation=0.3)).fit(history)
    train, held = places(detector.train_), places(detector.validation_)
    assert (len(train), len(held)) == (21, 9)
    assert not train & held
    assert train | held == {(0, start) for start in range(0, 160, 8)} | {(1, start) for start in range(0, 80, 8)}


@pytest.mark.parametrize(("count", "share", "expected"), [(5, 0.2, 1), (5, 0.01, 1), (5, 0.5, 2), (40, 0.25, 10)])
def test_how_many_are_held_out(count, share, expected):
    chosen = hold_out(count, share, seed=1)
    assert len(set(chosen.tolist())) == expected
    assert chosen.tolist() == sorted(chosen.tolist())
    assert 0 <= chosen.min() <= chosen.max() < count


def test_every_observation_is_held_out_as_often():
    counts = sum(np.bincount(hold_out(10, 0.3, seed), minlength=10) for seed in range(500))
    np.testing.assert_allclose(counts / 500, 0.3, atol=0.08)


def test_a_detector_sees_z_units():
    history = noise(160) * [1.0, 50.0, 1e-3] + [0.0, 1e4, 7.0]
    detector = Largest(length=8).fit(history)
    for part in (detector.train_, detector.validation_):
        for i in range(len(part)):
            start = part.places[i].start
            raw = history[start : start + 8]
            low, middle, high = np.quantile(history, [0.25, 0.5, 0.75], axis=0)
            np.testing.assert_allclose(part.read(i).T, (raw - middle) / ((high - low) / 1.349), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "contamination"), [(800, 0.1), (800, 0.25), (80, 0.1)])
def test_the_threshold_is_a_quantile_of_unlabelled_scores(rows, contamination):
    detector = Largest(length=8, contamination=contamination).fit(noise(rows))
    scores = [e.score for e in detector._score(detector.validation_)]
    if len(scores) * contamination < 2:
        scores = detector.decision_scores_.tolist()  # those set aside are among them
    ordered = sorted(scores)
    place = (1 - contamination) * (len(ordered) - 1)
    below = int(place)
    expected = ordered[below] + (place - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])
    assert detector.threshold_ == pytest.approx(expected, rel=1e-12)


def test_an_estimated_contamination_sets_the_threshold_by_the_false_alarms_expected():
    history = noise(800)
    history[80:88] += 60.0
    detector = Largest(length=8).fit(history)
    assert detector.settings.contamination == "auto"
    found = detector.contamination_
    assert not found.stated
    assert found == Contamination.find(detector.decision_scores_, "auto", 0)
    assert found.low <= 0.01 <= found.high
    assert detector.threshold_ == Normal.of(detector.decision_scores_, found).at(0.01)  # there is no clock
    assert detector.labels_[10] == 1


def test_a_threshold_is_chosen_anew_without_training():
    history = pd.DataFrame(noise(800), index=pd.date_range("2026-01-01", periods=800, freq="1h"))
    for settings, contamination in (
        ({"method": "quantile"}, 0.2),
        ({"method": "tail", "share": 0.02}, "auto"),
        ({"method": "alarms", "alarms": "0.5/day"}, "auto"),
    ):
        detector = Largest(length=8).fit(history)
        seen = detector.train_
        again = Largest(length=8, contamination=contamination, config=Common(threshold=Threshold.Config(**settings)))
        again.fit(history)
        assert detector.threshold_ != again.threshold_
        assert detector.set_threshold(contamination=contamination, **settings) is detector
        assert (detector.threshold_, detector.contamination_) == (again.threshold_, again.contamination_)
        assert detector.settings == again.settings
        assert detector.train_ is seen
    # Three observations a day, of which half a one is a sixth.
    assert detector.normal_.above(detector.threshold_) == pytest.approx(0.5 / 3)


def test_a_threshold_that_cannot_be_changes_nothing():
    detector = Largest(length=8).fit(noise(160))
    before = detector.settings, detector.threshold_
    for settings, expected in (
        ({"method": "alarms"}, "has no timestamps"),
        ({"method": "best"}, "`threshold.method` must be one of"),
        ({"shere": 0.1}, "no setting `threshold.shere`; did you mean `threshold.share`"),
        ({"share": 2.0}, "`threshold.share` must be between 0 and 1"),
        ({"contamination": 0.7}, "`contamination` must be between"),
        ({"alarms": "1/day"}, "has no timestamps"),
        ({"method": "tail", "alarms": "1/day"}, "`threshold.alarms` only applies to `threshold.method=alarms`"),
        ({"share": 0.1, "contamination": 0.1}, "`threshold.share` only applies to `threshold.method=tail`"),
    ):
        with pytest.raises(ConfigError, match=expected):
            detector.set_threshold(**settings)
        assert (detector.settings, detector.threshold_) == before
    with pytest.raises(NotFittedError):
        Largest().set_threshold(method="tail")


def test_what_an_earlier_choice_left_is_in_nobodys_way():
    history = pd.DataFrame(noise(800), index=pd.date_range("2026-01-01", periods=800, freq="1h"))
    detector = Largest(length=8).fit(history).set_threshold(method="alarms", alarms="0.5/day")
    detector.set_threshold(method="tail", share=0.02).set_threshold(contamination=0.1, method="auto")
    assert (detector.settings.threshold.alarms, detector.settings.threshold.share) == ("0.5/day", 0.02)
    assert detector.settings.threshold.resolve(stated=True) == "quantile"


def test_a_setting_that_nothing_comes_of_is_told():
    config = Common(threshold=Threshold.Config(method="tail", alarms="2/day"))
    with pytest.warns(TsadcNotice, match=r"`threshold\.alarms` only applies to `threshold\.method=alarms`"):
        Largest(length=8, config=config).fit(noise(160))


def test_alarms_per_day_are_refused_before_training_where_there_are_no_days():
    detector = Largest(length=8, config=Common(threshold=Threshold.Config(method="alarms")))
    with pytest.raises(ConfigError, match="has no timestamps"):
        detector.fit(noise(160))
    assert not hasattr(detector, "train_")


def test_a_contamination_for_what_needs_a_number_before_there_are_scores():
    assert Common().assumed_contamination == 0.1
    assert Common(contamination=0.3).assumed_contamination == 0.3


class Number(Largest):
    """Scores an observation by its number in the history."""

    def _score(self, observations):
        for i, found in enumerate(super()._score(observations)):
            number = float(observations.places[i].start // observations.length)
            yield Evidence(number, {"size": number}, found.steps, found.contributions, found.causes)


def test_what_is_held_out_counts_once_in_the_threshold():
    detector = Number(length=8, contamination=0.1).fit(noise(160))
    assert len(detector.validation_scores_) == 4
    assert sorted(detector.decision_scores_) == list(range(20))
    assert detector.threshold_ == pytest.approx(17.1)  # the place 0.9 * 19 of 0 to 19
    detector.set_threshold(contamination=0.2)
    assert detector.threshold_ == pytest.approx(15.2)
    # Of validation data of its own, all 4 are further observations: 0, 0, 1, 1, ..., 3, 3, 4, ..., 19.
    detector = Number(length=8, contamination=0.1).fit(noise(160), validation=noise(32, 1))
    assert detector.threshold_ == pytest.approx(0.9 * 23 - 4)


def test_validation_data_of_ones_own():
    history, other = noise(160), noise(400, 1) + 5
    detector = Largest(length=8, contamination=0.1).fit({"a": history}, validation={"b": other})
    assert len(detector.train_) == len(detector.decision_scores_) == 20
    assert len(detector.validation_) == 50
    scores = [e.score for e in detector._score(detector.validation_)]
    assert detector.threshold_ == np.quantile(scores, 0.9)
    # By its own statistics: its offset is no anomaly.
    assert np.abs(np.median([detector.validation_.read(i) for i in range(50)])) < 0.2
    assert set(detector.scaler_.entities) == {"a", "b"}
    pooled = Common(scaler=Scaler.Config(scope="pooled"))
    detector = Largest(length=8, config=pooled).fit({"a": history}, validation={"b": other})
    assert detector.scaler_.entities == {}
    with pytest.raises(DataError, match="The validation data has no observation of 8 rows"):
        Largest(length=8).fit(history, validation=noise(3))


def test_validation_data_does_not_change_the_statistics_of_a_training_entity():
    detector = Largest(length=8).fit({"a": noise(160)}, validation={"a": noise(80, 1) + 50})
    alone = Largest(length=8).fit({"a": noise(160)})
    np.testing.assert_array_equal(detector.scaler_.entities["a"].center, alone.scaler_.entities["a"].center)


def test_what_a_training_run_is_told(tmp_path):
    reports = []
    history = noise(160)
    detector = Largest(length=8)
    detector.fit(history, progress=reports.append, checkpoint=str(tmp_path / "run"), resume=True)
    options = detector.options_
    assert options.progress == reports.append
    assert options.checkpoint == tmp_path / "run"
    assert options.resume
    same = Largest(length=8).fit(history.copy()).options_
    assert same.fingerprint == options.fingerprint
    assert (same.checkpoint, same.resume, same.progress) == (None, False, None)


def test_scoring_tells_how_far_it_is():
    reports = []
    detector = Largest(length=8).fit(noise(160), validation=noise(40, 1), progress=reports.append)
    assert reports == [ScoringProgress(i, 20) for i in range(1, 21)] + [ScoringProgress(i, 5) for i in range(1, 6)]
    reports.clear()
    with_progress = detector.detect(noise(24), progress=reports.append)
    assert reports == [ScoringProgress(1, 3), ScoringProgress(2, 3), ScoringProgress(3, 3)]
    pd.testing.assert_frame_equal(with_progress.timeline, detector.detect(noise(24)).timeline)


def test_a_run_is_known_by_its_history_and_its_validation_data():
    def fingerprint(history, validation=None):
        return Largest(length=8).fit(history, validation=validation).options_.fingerprint

    history, other = noise(160), noise(80, 1)
    changed = history.copy()
    changed[7, 1] += 1e-9
    every = [fingerprint(history), fingerprint(changed), fingerprint(history, other), fingerprint(history, other + 1)]
    assert all(one != two for i, one in enumerate(every) for two in every[:i])


def test_expected_values_come_back_in_the_units_of_the_input():
    history = noise(160) * [1.0, 50.0, 1e-3] + [0.0, 1e4, 7.0]
    detector = Largest(length=8).fit(history)
    np.testing.assert_allclose(detector.detect(history).expected.to_numpy(), history, rtol=1e-5, atol=1e-5)


def test_labels_are_ignored():
    history = noise(160)
    with_labels = Largest(length=8).fit(history, np.ones(20))
    assert with_labels.threshold_ == Largest(length=8).fit(history).threshold_


@pytest.mark.parametrize("rows", [3, 35])
def test_too_little_history(rows):
    with pytest.raises(DataError, match=rf"at least 5 observations of 8 rows .* but the history of {rows} rows in 1 s"):
        Largest(length=8).fit(noise(rows))
    Largest(length=8).fit(noise(36))


def test_a_constant_variable_is_told_and_a_constant_history_refused():
    still = noise(160)
    still[:, 1] = 3.0
    with pytest.warns(TsadcNotice, match="Constant throughout the history: variable_1; any change") as caught:
        detector = Largest(length=8).fit(still)
    assert caught[0].filename == __file__
    moved = still.copy()
    moved[80, 1] = 4.0
    assert detector.decision_function(moved).argmax() == 10
    with pytest.raises(DataError, match="Every variable of the history is constant"):
        Largest(length=8).fit(np.ones((160, 3)))


def test_another_sampling_interval_is_refused():
    def frame(interval: str, rows: int = 160) -> pd.DataFrame:
        index = pd.date_range("2024-01-01", periods=rows, freq=interval)
        return pd.DataFrame(noise(rows), index=index, columns=list("abc"))

    detector = Largest(length=8).fit(frame("1min"))
    expected = "'series' is sampled every 30s, but 1min was expected; resample it"
    for call in (detector.detect, detector.adapt):
        with pytest.raises(DataError, match=expected):
            call(frame("30s"))
    with pytest.raises(DataError, match=expected):
        Largest(length=8).fit(frame("1min"), validation=frame("30s"))
    with pytest.raises(DataError, match="'b' is sampled every 30s"):
        Largest(length=8).fit({"a": frame("1min"), "b": frame("30s")})
    detector.detect(noise(16))  # without a clock there is nothing to compare


def test_notices_point_at_the_callers_line():
    detector = Largest(length=8).fit({"a": noise(80), "b": noise(80, 1)})
    with pytest.warns(TsadcNotice) as caught:
        detector.detect({"c": noise(17)})
    assert [one.filename for one in caught] == [__file__] * 2
    for score in (detector.decision_function, detector.predict):
        with pytest.warns(TsadcNotice, match="the model does not know") as caught:
            score(noise(16))
        assert caught[0].filename == __file__


def test_observations_left_out_are_named():
    detector = Largest(length=8).fit({"a": noise(80), "b": noise(80, 1)})
    index = pd.date_range("2024-01-01", periods=60, freq="1min")
    frame = pd.DataFrame(noise(60), index=index, columns=[f"variable_{i}" for i in range(3)])
    frame.iloc[8:16] = np.nan
    with pytest.warns(TsadcNotice) as caught:
        assert detector.detect({"a": noise(17), "b": frame}).left_out == 2
    assert str(caught[0].message) == (
        "2 observations with values in less than half of the rows were left out: 'a' from row 16, 'b' from "
        "2024-01-01 00:08:00."
    )
    assert caught[0].filename == __file__
    frame.iloc[8:40] = np.nan
    with pytest.warns(TsadcNotice, match=r"^4 observations .*: 'b' from .*:08:00, .*:16:00, .*:24:00 and 1 more\.$"):
        detector.predict({"b": frame})


def test_an_unknown_argument_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"^Largest has no parameter `lenght`; did you mean `length`"):
        Largest(lenght=60)
    with pytest.raises(ConfigError, match=r"^Largest has no parameter `covrage`; did you mean `coverage`"):
        Largest(covrage=0.3)


def test_an_unknown_setting_of_a_config_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"^There is no setting `lenght`; did you mean `length`"):
        Common(lenght=60)
    with pytest.raises(ConfigError, match=r"^There is no setting `trainin`; did you mean `training`"):
        TSADC.Config(trainin={"epochs": 3})
    assert replace(TSADC.Config(length=60), seed=3) == TSADC.Config(length=60, seed=3)


@pytest.mark.parametrize("make", [TSADC.Config.with_settings, TSADC.Config])
def test_the_old_name_of_a_setting_is_refused_with_the_new_one(make):
    for settings, expected in (
        ({"head": "paper"}, "`head` is now called `scoring` (fused or own)."),
        ({"views": {"kernels": 3}}, "`views` is now called `ensemble`."),
    ):
        with pytest.raises(ConfigError) as caught:
            make(**settings)
        assert str(caught.value) == expected
    with pytest.raises(ConfigError, match=r"^`scoring` as a section is now called `inference`"):
        TSADC.Config.with_settings(scoring={"masks": 3})
    with pytest.raises(ConfigError, match=r"^`views` is no longer a section"):
        Ensemble.Config.with_settings(views={"kernels": 3})
    for old, new in RENAMED_SETTINGS.items():  # those that old models are read with
        assert f"`{new}`" in TSADC.Config.renamed_settings[old]


def test_a_mapping_as_config_is_refused_with_what_to_write():
    detector = Ensemble(config={"length": 60})
    expected = (
        r"^`config` must be an Ensemble\.Config, but got a dict; write Ensemble\.Config\.with_settings\(\*\*config\)\.$"
    )
    with pytest.raises(ConfigError, match=expected):
        detector.fit(noise(3000))
    with pytest.raises(ConfigError, match=r"^`config` must be a Largest\.Config, but got a float\.$"):
        Largest(config=3.0).fit(noise(3000))


def test_whether_validation_was_held_out_is_kept():
    assert Largest(length=8).fit(noise(160)).held_out_
    history = noise(160)
    chosen = hold_out(20, 0.2, 0)
    same = np.concatenate([history[8 * i : 8 * i + 8] for i in chosen])
    given = Number(length=8, contamination=0.1).fit(history, validation=same)
    assert not given.held_out_
    # Even if their scores equal those that would have been held out, they count besides the history.
    given.validation_scores_ = given.decision_scores_[chosen]
    given.set_threshold(contamination=0.1)
    assert given.threshold_ == np.quantile([*given.validation_scores_, *given.decision_scores_], 0.9)


def test_a_model_of_a_single_entity_takes_others_without_a_notice():
    detector = Largest(length=8).fit({"a": noise(160)})
    np.testing.assert_array_equal(detector.decision_function({"z": noise(16)}), detector.decision_function(noise(16)))


def test_a_fit_that_fails_leaves_no_model_behind(monkeypatch):
    def fail(*_):
        raise RuntimeError("no luck")

    detector = Largest(length=8).fit(noise(160))
    monkeypatch.setattr(Largest, "_fit", fail)
    with pytest.raises(RuntimeError, match="no luck"):
        detector.fit(noise(160, 1))
    assert not hasattr(detector, "threshold_")
    with pytest.raises(AttributeError, match="not fitted yet"):
        detector.detect(noise(16))


def test_settings_come_from_the_constructor_then_from_the_configuration_then_from_the_defaults():
    assert Largest().settings == Common()
    config = Common(length=24, contamination=0.3, seed=5)
    assert Largest(config=config).settings == config
    assert Largest(length=16, seed=0, config=config).settings == Common(length=16, contamination=0.3, seed=0)
    assert Largest(length=np.int64(16)).settings.length == 16
    assert type(Largest(length=16.0).settings.length) is int


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"length": 7}, "`length` must be at least 8 rows, but got 7"),
        ({"contamination": 0.5}, "`contamination` must be between 0 and 0.5, both excluded, or auto, but got 0.5"),
        ({"contamination": 0.0}, "`contamination` must be between"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, but got -1"),
        ({"validation": 0.0}, "`validation` must be above 0 and at most 0.5, but got 0.0"),
        ({"validation": 0.6}, "`validation` must be above 0"),
    ],
)
def test_settings_out_of_range(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        Common(**settings)


@pytest.mark.parametrize("rows", [0, 7])
def test_too_little_history_to_adapt_to_is_refused(rows):
    detector = Largest(length=8).fit(noise(80))
    little = np.full((40, noise(8).shape[1]), np.nan)
    little[:rows] = 1.0
    with pytest.raises(DataError, match=f"needs at least 8 rows with values, but its history has {rows}"):
        detector.adapt({"new": little})
    assert "new" not in detector.scaler_.entities


def test_a_known_entity_is_adapted_with_a_notice():
    detector = Largest(length=8).fit({"left": noise(80), "right": noise(80)})
    before = detector.scaler_.entities["right"].center.copy()
    with pytest.warns(TsadcNotice, match=r"^The model already knows left; its statistics are replaced"):
        detector.adapt({"left": noise(80) + 9, "new": noise(80)})
    assert (detector.scaler_.entities["left"].center > before + 8).all()
    np.testing.assert_array_equal(detector.scaler_.entities["right"].center, before)


def test_a_pace_without_a_start_is_kept_and_compared(tmp_path):
    def series(pace: int | None, entity: str = "x") -> Series:
        return Series(noise(160), ("a", "b", "c"), Clock(pace=pace), entity)

    detector = Largest(length=8).fit([series(None), series(2_000_000, "y")])
    assert detector.clock_ == Clock(pace=2_000_000)
    detector.detect(series(2_000_000))
    detector.detect(series(None))
    expected = "'x' is sampled every 4ms, but 2ms was expected; fit a model to data of this step, or .* --rate 500"
    with pytest.raises(DataError, match=expected):
        detector.detect(series(4_000_000))
    with pytest.raises(DataError, match=expected):
        Largest(length=8).fit([series(2_000_000, "y"), series(4_000_000)])
