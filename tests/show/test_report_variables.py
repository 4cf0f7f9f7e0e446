import re
from dataclasses import replace

import numpy as np

from tsadc.show.findings import read
from tsadc.show.report_variables import LEVELS, heat_maps, ranking


def test_ranking_counts_the_variables_of_the_intervals(result):
    shown = ranking(read(result, ()))
    assert shown is not None
    shares = result.worst(len(result.intervals))["variables"].tolist()
    for row in re.findall(r"<tr><th scope=\"row\"><bdi>(.*?)</bdi></th>(.*?)</tr>", shown):
        name = row[0].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        main, named, mean = re.findall(r'<td class="num">(.*?)</td>', row[1])
        assert int(main) == sum(next(iter(interval)) == name for interval in shares)
        assert int(named) == sum(name in interval for interval in shares)
        expected = 100 * np.mean([interval[name] for interval in shares if name in interval])
        assert abs(float(mean.split("\N{NARROW NO-BREAK SPACE}")[0]) - expected) <= 0.5


def test_no_interval_no_ranking(calm):
    assert ranking(read(calm, ())) is None


def test_one_high_value_darkens_its_column_only(result):
    findings = read(result, ())
    track = findings.tracks[0]
    contributions = np.full(track.contributions.shape, 0.1)
    contributions[501, 2] = 100.0
    alone = replace(
        findings, tracks=(replace(track, contributions=contributions, flagged=np.zeros(1000, bool)),), intervals=()
    )
    drawn = heat_maps(alone)
    levels = {level: d for d, level in re.findall(r'<path d="([^"]*)" class="level-(\d)">', drawn)}
    # 1,000 rows in columns of 7: row 501 lies in [497, 504).
    assert levels[str(len(LEVELS))] == "M497,2h7v1h-7z"
    assert [levels[str(k)] for k in range(1, len(LEVELS))] == [""] * (len(LEVELS) - 1)
