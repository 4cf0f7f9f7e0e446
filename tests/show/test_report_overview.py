from dataclasses import replace

import numpy as np

from tsadc.series import Clock
from tsadc.show.findings import read
from tsadc.show.report_overview import shared_window, strips


def moved(track, clock):
    return replace(track, series=replace(track.series, clock=clock))


def test_entities_share_one_axis_unless_they_lie_far_apart(result):
    first, second = read(result, ()).tracks
    window = shared_window((first, second))
    assert window is not None
    assert window.rows == 1000
    assert window.share(first.end) == 1.0
    clock = second.series.clock
    near = moved(second, replace(clock, start=clock.start + 500 * clock.interval))
    together = shared_window((first, near))
    assert together is not None
    assert together.rows == 1500
    assert together.share(near.series.clock.start) == 500 / 1500
    assert shared_window((first, moved(second, replace(clock, start=clock.start + 9000 * clock.interval)))) is None
    assert shared_window((first, moved(second, Clock()))) is None


def test_a_single_high_score_is_seen_whatever_the_width(result):
    findings = read(result, ())
    track = findings.tracks[0]
    score = np.zeros(len(track.score))
    score[777] = findings.threshold + 1
    alone = replace(findings, tracks=(replace(track, score=score),), intervals=())
    drawn = strips(alone, 10)
    assert f"{score.max():.4g}" in drawn
    assert drawn.count('d="" class="above"') == 0


def test_intervals_that_the_table_leaves_out_are_marked_without_a_link(result):
    findings = read(result, ())
    drawn = strips(findings, 1)
    assert drawn.count('<a class="mark"') == 1
    assert drawn.count('<i class="mark"') == len(findings.intervals) - 1
