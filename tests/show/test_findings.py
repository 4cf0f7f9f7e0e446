import numpy as np

from tsadc.show.findings import read


def test_intervals_are_found_again_by_their_rows(result, truth):
    findings = read(result, truth)
    worst = result.worst(len(result.intervals))
    assert [finding.rank for finding in findings.intervals] == list(range(1, len(worst) + 1))
    for finding, (_, row) in zip(findings.intervals, worst.iterrows(), strict=True):
        times = finding.track.series.clock.at([finding.start, finding.stop])
        assert (finding.track.entity, *times) == (row["entity"], row["start"], row["end"])
        assert (finding.score, finding.severity, finding.variables) == (row["score"], row["severity"], row["variables"])
        assert finding.track.flagged[finding.start : finding.stop].all()


def test_tracks_hold_their_entity_alone(result):
    for track in read(result, ()).tracks:
        own = result.timeline[result.timeline["entity"] == track.entity]
        np.testing.assert_array_equal(track.score, own["score"].to_numpy())
        np.testing.assert_array_equal(track.contributions, result.variables.loc[track.entity].to_numpy())
        assert track.expected is not None
        np.testing.assert_array_equal(track.expected, result.expected.loc[track.entity].to_numpy())
        assert track.length == 100


def test_height_above_the_threshold_is_compressed(result):
    findings = read(result, ())
    apart = findings.threshold - findings.middle
    scores = findings.threshold + apart * np.array([0.0, 1.0, 3.0, 1e9])
    np.testing.assert_allclose(findings.height(scores), [0.5, 0.75, 0.875, 1.0])
    assert np.isnan(findings.height(np.array([np.nan]))[0])


def test_truth_meets_the_interval_it_overlaps(result, truth):
    findings = read(result, truth)
    assert len(findings.truth) == 2
    met = {true.kind for finding in findings.intervals for true in finding.truth}
    assert "level <shift>" in met


def test_summaries(result):
    findings = read(result, ())
    assert findings.flagged_share == result.timeline["anomalous"].sum() / result.timeline["score"].notna().sum()
    assert findings.affected == result.intervals["entity"].nunique()
    causes = [next(iter(shares)) for shares in result.intervals["variables"]]
    assert findings.main_variables() == {name: causes.count(name) for name in causes}
