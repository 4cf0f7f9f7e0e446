"""Write a backtest to files: the page, a table of alarms, and the facts for programs."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsadc.series import Clock
from tsadc.serve.backtest import SECOND, Alarm, Backtest, EntityReplay
from tsadc.show.charts import excess_chart, place, time_axis, time_ticks
from tsadc.show.html import Html, Section, element, facts, join, name, outline, page, sortable_table, tiles
from tsadc.show.result_files import guarded, shares_json, with_iso_times
from tsadc.show.words import DASH, Times, count, number, precision
from tsadc.wording import duration

PAGE, TABLE, FACTS = "index.html", "alarms.csv", "backtest.json"
FILES = (PAGE, TABLE, FACTS)
LISTED = 1000  # alarms in the table of the page
MOST_STRIPS = 20
COLUMNS = 400
BLAMED = 3  # variables in the table of the page
TICKS = Clock(0, 1, dated=True)
STRIPS = (
    "Each strip shows the score of one entity, maximum per pixel column, with the threshold at half the height, as far "
    "as it was known when each observation was complete. Marks above a strip are the episodes of its alarms."
)
DELAYS = (
    "An alarm is raised when the row arrives that completes an observation, or a quarter of it, and the score is above "
    "the threshold. The delay is counted from the first anomalous row, as the last verdict about the episode has it. "
    "Alarms that the final verdict did not confirm have no part in the median, as they have no anomaly to be late for."
)
HEADS = (
    *(("Entity", False), ("Alarm", False), ("Delay", True), ("Start", False), ("Lasted", True), ("Severity", True)),
    *(("State", False), ("Kind", False), ("Variables", False)),
)


def write_backtest(found: Backtest, folder: Path, *, title: str, about: Mapping[str, str]) -> None:
    """Write the three files into a folder."""
    unit = precision(part.clock for part in found.entities)
    table = guarded(with_iso_times(_frame(found), unit))
    # Spreadsheets need the mark at the beginning of the file to recognise UTF-8.
    table.to_csv(folder / TABLE, index=False, encoding="utf-8-sig", lineterminator="\r\n")
    content = {**facts_of(found), **about, "version": importlib.metadata.version("tsadc")}
    (folder / FACTS).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = render(found, title=title, about=about)
    (folder / PAGE).write_text(text, encoding="utf-8", errors="replace")


def _frame(found: Backtest) -> pd.DataFrame:
    zones = {part.entity: replace(TICKS, timezone=part.clock.timezone) for part in found.entities}
    rows = [
        {
            "entity": alarm.entity,
            **{key: zones[alarm.entity].at([getattr(alarm, key)])[0] for key in ("time", "start", "end")},
            "delay_seconds": alarm.delay / SECOND,
            **{key: getattr(alarm, key) for key in ("state", "alarm_severity", "severity", "alarm_score", "score")},
            "confirmed": not alarm.withdrawn,
            **{key: getattr(alarm, key) for key in ("muted", "kind", "reason", "evidence")},
            "variables": shares_json(dict(alarm.variables)),
        }
        for alarm in found.alarms
    ]
    columns = (
        *("entity", "time", "start", "end", "delay_seconds", "state", "alarm_severity", "severity", "alarm_score"),
        *("score", "confirmed", "muted", "kind", "reason", "evidence", "variables"),
    )
    return pd.DataFrame(rows, columns=columns)


def facts_of(found: Backtest) -> dict[str, Any]:
    """Return the figures of a backtest as plain data."""
    return {
        "from": _date(found.start),
        "to": _date(found.end),
        "weeks": round(found.weeks, 3),
        **_figures(found, found.sent),
        "muted": len(found.alarms) - len(found.sent),
        "entities": {
            part.entity: {
                "rows": part.rows,
                "refused_rows": part.refused,
                **_figures(found, part.sent),
                "muted": len(part.alarms) - len(part.sent),
                "by_week": {_date(week)[:10]: alarms for week, alarms in found.by_week(part.sent).items()},
            }
            for part in found.entities
        },
    }


def _figures(found: Backtest, alarms: Sequence[Alarm]) -> dict[str, Any]:
    delays = [alarm.delay / SECOND for alarm in alarms if not alarm.withdrawn]
    return {
        "alarms": len(alarms),
        "alarms_per_week": round(len(alarms) / found.weeks, 3),
        "not_confirmed": sum(alarm.withdrawn for alarm in alarms),
        "open_at_the_end": sum(alarm.state == "open" for alarm in alarms),
        "median_delay_seconds": float(np.median(delays)) if delays else None,
        "longest_delay_seconds": max(delays) if delays else None,
    }


def _date(tick: int) -> str:
    return pd.Timestamp(tick).isoformat() + "Z"


def headline(found: Backtest) -> str:
    """Return the result in one sentence."""
    alarms = len(found.sent)
    weeks = (
        f"{found.weeks:.1f} weeks"
        if found.weeks >= 1
        else duration(replace(TICKS, interval=found.end - found.start), 1)
    )
    if not alarms:
        return f"No alarm in {weeks}."
    often = f": {number(alarms / found.weeks)} a week" if found.weeks >= 1 else ""
    return f"{count(alarms, 'alarm', 'alarms')} in {weeks}{often}."


def summary(found: Backtest) -> str:
    """Return the result in a few lines, for the terminal."""
    figures = _figures(found, found.sent)
    lines = [headline(found)]
    if figures["alarms"]:
        worst = max(found.entities, key=lambda part: len(part.sent))
        which = " (without those that are withdrawn)" if 0 < figures["not_confirmed"] < figures["alarms"] else ""
        lines.append(f"Delay after the first anomalous row{which}: {_delays(found.sent)}.")
        if len(found.entities) > 1:
            lines.append(f"Most alarms: {worst.entity}, {len(worst.sent)}.")
        if figures["not_confirmed"]:
            lines.append(f"{figures['not_confirmed']} of them would have been withdrawn by the final verdict.")
    if muted := len(found.alarms) - len(found.sent):
        lines.append(f"{count(muted, 'more alarm is', 'more alarms are')} muted by planned work.")
    return "\n".join(lines)


def _delays(alarms: Sequence[Alarm]) -> str:
    delays = [alarm.delay for alarm in alarms if not alarm.withdrawn]
    if not delays:
        return "none was confirmed"
    return f"median {_duration(int(np.median(delays)))}, at most {_duration(max(delays))}"


def _duration(ticks: int) -> str:
    return duration(TICKS, ticks) if ticks else "0 s"


def render(found: Backtest, *, title: str, about: Mapping[str, str]) -> str:
    """Return the page as text."""
    sent = found.sent
    delays = [alarm.delay for alarm in sent if not alarm.withdrawn]
    boxes = [
        ("Alarms", f"{len(sent):,}", f"{len(found.alarms) - len(sent):,} more muted"),
        ("A week", number(len(sent) / found.weeks), f"over {count(len(found.entities), 'entity', 'entities')}"),
        ("Median delay", _duration(int(np.median(delays))) if delays else DASH, "of confirmed alarms"),
        ("Not confirmed", f"{sum(alarm.withdrawn for alarm in sent):,}", "by the final verdict"),
    ]
    said = element("p", element("strong", headline(found)), class_="verdict" if sent else "verdict calm")
    period = (
        f"Replayed from {_moment(found.start)} to {_moment(found.end)} UTC, row by row, as the service would judge."
    )
    top = join(said, element("p", period, class_="worst"), tiles(boxes))
    sections = [
        Section("alarms", "Alarms", join(element("p", DELAYS, class_="lead"), _table(found))),
        Section("entities", "By entity", _entities(found)),
        Section("weeks", "By week", _weeks(found)),
        Section("scores", "Scores", join(element("p", STRIPS, class_="lead"), _strips(found))),
        Section("about", "About this page", facts([*about.items(), *_created()])),
    ]
    return page(title, outline(title, top, sections))


def _created() -> list[tuple[str, str]]:
    return [("created with", f"tsadc {importlib.metadata.version('tsadc')}")]


def _moment(tick: int) -> str:
    return f"{pd.Timestamp(tick):%Y-%m-%d %H:%M}"


def _table(found: Backtest) -> Html:
    alarms = found.alarms
    if not alarms:
        return element("p", "There are none.", class_="note")
    parts = {part.entity: part for part in found.entities}
    rows = [_row(alarm, parts[alarm.entity]) for alarm in alarms[:LISTED]]
    more = f"The table lists only the first {LISTED:,}; {TABLE} lists all." if len(alarms) > LISTED else None
    return join(element("p", more, class_="note") if more else None, sortable_table(HEADS, rows, "scroll tall"))


def _row(alarm: Alarm, part: EntityReplay) -> Html:
    times = Times(part.clock)
    state = "not confirmed" if alarm.withdrawn else alarm.state
    blamed = list(alarm.variables)[:BLAMED]
    cells: list[tuple[str, object]] = [
        (name(alarm.entity), None),
        (times.short(part.row(alarm.time)), alarm.time),
        (_duration(alarm.delay), alarm.delay),
        (times.short(part.row(alarm.start)), alarm.start),
        (_duration(alarm.end - alarm.start), alarm.end - alarm.start),
        (f"{alarm.severity:.0f}", alarm.severity),
        (f"{state}, muted" if alarm.muted else state, None),
        (alarm.kind, None),
        (join(*(join(", " if i else "", name(variable)) for i, variable in enumerate(blamed))), None),
    ]
    shown = [
        element(
            "td", text, data_value=value, class_="num" if right else "time" if title in ("Alarm", "Start") else None
        )
        for (title, right), (text, value) in zip(HEADS, cells, strict=True)
    ]
    return element("tr", shown, title=alarm.reason or None)


def _entities(found: Backtest) -> Html:
    heads = (
        *(("Entity", False), ("Rows", True), ("Alarms", True), ("A week", True), ("Busiest week", True)),
        *(("Not confirmed", True), ("Muted", True), ("Refused rows", True)),
    )
    rows = []
    for part in sorted(found.entities, key=lambda part: -len(part.sent)):
        figures = (
            *(part.rows, len(part.sent), len(part.sent) / found.weeks, max(found.by_week(part.sent).values())),
            *(sum(alarm.withdrawn for alarm in part.sent), len(part.alarms) - len(part.sent), part.refused),
        )
        shown = [f"{value:,}" if isinstance(value, int) else number(value) for value in figures]
        cells = [
            element("td", text, data_value=value, class_="num") for text, value in zip(shown, figures, strict=True)
        ]
        rows.append(element("tr", element("td", name(part.entity)), cells))
    return sortable_table(heads, rows, "scroll tall")


def _weeks(found: Backtest) -> Html:
    counted = found.by_week(found.sent)
    most = max(max(counted.values()), 1)
    rows = [
        element(
            "tr",
            element("td", _moment(week)[:10], data_value=week, class_="time"),
            element("td", f"{alarms:,}", data_value=alarms, class_="num"),
            element(
                "td",
                element(
                    "div", element("i", style=f"width:{100 * alarms / most:.1f}%"), class_="bar", style="min-width:8rem"
                ),
            ),
        )
        for week, alarms in counted.items()
    ]
    note = "Weeks begin on Monday, in UTC; the first and the last one may be incomplete."
    heads = (("Week from", False), ("Alarms", True), ("", False))
    return join(element("p", note, class_="lead"), sortable_table(heads, rows, "scroll tall"))


def _strips(found: Backtest) -> Html:
    chosen = sorted(found.entities, key=lambda part: -len(part.sent))[:MOST_STRIPS]
    hidden = len(found.entities) - len(chosen)
    more = f"{count(hidden, 'entity is', 'entities are')} not shown." if hidden else None
    return join(
        element("div", [_strip(part, found.unit) for part in chosen], class_="strips"),
        element("p", more, class_="note") if more else None,
    )


def _strip(part: EntityReplay, unit: float) -> Html:
    def share(tick: int) -> float:
        return float(np.clip(part.row(tick) / part.length, 0, 1))

    marks = [element("i", class_="mark", style=place(share(alarm.start), share(alarm.end))) for alarm in part.sent]
    plot = element("div", excess_chart(part.scores(), unit, COLUMNS), marks, class_="score", style=place(0, 1))
    axis = time_axis(time_ticks(Times(part.clock), 0, part.length, 9))
    label = element("span", count(len(part.sent), "alarm", "alarms"))
    who = element("div", name(part.entity), label, class_="who")
    return element("div", who, element("div", element("div", plot, class_="track"), axis), class_="strip")
