import numpy as np
import pytest

from tsadc.bench.demo import Demonstration, demonstrate
from tsadc.data.plant import Plant
from tsadc.detectors import find
from tsadc.evaluate.ranking import all_positive_f1, auroc, average_precision
from tsadc.nn.train import TrainingProgress
from tsadc.series import Booleans
from tsadc.windows import cut

SMALL = Plant.Config(entities=2, variables=4, rows=900, length=60, test_contamination=0.4, seed=3)


@pytest.fixture(scope="module")
def shown() -> Demonstration:
    return demonstrate(SMALL, seed=1, epochs=1)


@pytest.fixture(scope="module")
def labels() -> Booleans:
    test = Plant(SMALL).test()
    return test.touched(cut(test.series, SMALL.length).observations)


def test_it_trains_as_told_on_the_unlabelled_history(shown: Demonstration) -> None:
    for detector in (shown.ensemble, shown.tsadc):
        settings = detector.settings
        assert (settings.length, settings.contamination, settings.seed) == (60, "auto", 1)
        assert detector.provenance_["data"]["rows"] == 1800
    assert shown.tsadc.settings.training.epochs == 1
    assert [one.entity for one in shown.split.train] == ["unit-1", "unit-2"]


def test_the_results_are_of_the_unseen_part(shown: Demonstration) -> None:
    for detector, result in ((shown.ensemble, shown.ensemble_result), (shown.tsadc, shown.tsadc_result)):
        assert len(result.observations) == 30
        assert len(result.timeline) == 1800
        first = result.timeline["time"].iloc[0]
        assert first == Plant(SMALL).test().series[0].clock.at([0])[0]
        scores = detector.decision_function(shown.split.test.series)
        np.testing.assert_array_equal(result.observations["score"], scores)


def test_the_combined_result_has_the_scores_of_one_and_the_expected_values_of_the_other(shown: Demonstration) -> None:
    assert shown.ensemble_result.expected is None
    assert shown.combined.intervals.equals(shown.ensemble_result.intervals)
    assert shown.combined.timeline.equals(shown.ensemble_result.timeline)
    assert shown.combined.expected is not None
    assert shown.combined.expected.equals(shown.tsadc_result.expected)


def test_the_table_holds_what_each_score_is_worth(shown: Demonstration, labels: Booleans) -> None:
    table = shown.comparison.set_index("detector")
    assert list(table.index) == ["ensemble", "tsadc", "ridge", "robust-z", "random", "flag everything"]
    assert list(table.columns) == ["AUROC", "AP", "F1"]
    scores = shown.tsadc_result.observations["score"].to_numpy()
    robust = find("robust-z")(length=60, seed=1).fit(shown.split.train)
    for name, found in (
        ("ensemble", shown.ensemble_result.scores),
        ("tsadc", scores),
        ("robust-z", robust.decision_function(shown.split.test.series)),
    ):
        assert table.loc[name, "AUROC"] == pytest.approx(auroc(labels, found))
        assert table.loc[name, "AP"] == pytest.approx(average_precision(labels, found))
    flagged = scores > shown.tsadc.threshold_
    hits = (flagged & labels).sum()
    assert table.loc["tsadc", "F1"] == pytest.approx(2 * hits / (flagged.sum() + labels.sum()))


def test_flagging_everything_is_worth_the_prevalence(shown: Demonstration, labels: Booleans) -> None:
    row = shown.comparison.set_index("detector").loc["flag everything"]
    assert row["AUROC"] == 0.5
    assert row["AP"] == pytest.approx(0.4)
    assert row["F1"] == pytest.approx(all_positive_f1(labels))


def test_progress_is_told(shown: Demonstration) -> None:
    told: list[object] = []
    again = demonstrate(SMALL, seed=1, epochs=1, progress=told.append)
    assert [now.epochs for now in told if isinstance(now, TrainingProgress) and now.epoch_ended] == [1]
    assert again.comparison.equals(shown.comparison)
