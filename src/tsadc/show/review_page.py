"""The page of `tsadc review`: one question at a time, by keyboard, mouse or finger; the browser saves the answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsadc.show.charts import area, drawing, edges, highest, place
from tsadc.show.html import Html, Section, element, join, name, outline, page
from tsadc.show.stored_results import Stored, StoredResults
from tsadc.show.words import count, percent, severity, severity_word

COLUMNS = 240
ANSWERS = (("true", "Yes, unusual", "y"), ("false", "No, false alarm", "n"), ("planned", "Planned work", "p"))
LEAD = (
    "Is this a true anomaly? The first questions teach most, and ten answers are a good start. Nothing leaves this "
    "page: save the answers as a file, for "
)


def render(results: StoredResults, asked: Sequence[Stored], *, title: str, model: str) -> str:
    """Return the page as text."""
    many = count(len(asked), "question", "questions")
    summary = join(
        element("p", element("strong", f"{many} about what the model found."), class_="verdict calm"),
        element("p", LEAD, element("code", "tsadc label"), ".", class_="worst"),
    )
    cards = [_question(results, interval, number, len(asked)) for number, interval in enumerate(asked, start=1)]
    save = element(
        "div",
        element("p", "No answers yet.", id="count", role="status"),
        element("button", "Save answers", type="button", id="save", disabled=True),
        class_="save",
    )
    keys = element(
        "p",
        "Keys: ",
        [join(element("kbd", key), f" {text.lower()}  ") for _, text, key in ANSWERS],
        element("kbd", "s"),
        " skip  ",
        element("kbd", "u"),
        " back",
        class_="note",
    )
    content = join(element("div", cards, class_="questions", data_model=model), keys, save)
    section = Section("questions", "Questions", content)
    return page(title, outline(title, summary, [section]), ("review",))


def _question(results: StoredResults, interval: Stored, number: int, total: int) -> Html:
    judged = interval.judged
    shares = [
        element(
            "li",
            element("span", name(variable), class_="label"),
            element("span", percent(share), class_="figure"),
            element("span", element("i", style=f"width:{100 * share:.4g}%"), class_="bar", aria_hidden="true"),
        )
        for variable, share in interval.variables.items()
    ]
    head = element(
        "header",
        element("span", f"{number} of {total}", class_="rank"),
        element("h3", name(judged.entity), element("span", interval.when)),
        element("span", element("code", judged.id), interval.duration, class_="duration"),
        element("span", f"{severity_word(interval.severity)}, {severity(interval.severity)}", class_="severity"),
    )
    buttons = [
        element("button", text, type="button", data_verdict=verdict, aria_pressed="false")
        for verdict, text, _ in ANSWERS
    ]
    note = element("input", type="text", placeholder="Note (optional)", aria_label="Note", maxlength="1000")
    why = element("div", element("p", interval.reason), element("ol", shares, class_="contributions"), class_="why")
    return element(
        "article",
        head,
        element("div", why, _scores(results, interval), class_="body"),
        element("div", buttons, note, class_="answers"),
        class_="card",
        data_id=judged.id,
    )


def _scores(results: StoredResults, interval: Stored) -> Html:
    """Draw the scores around the interval, which is shaded."""
    scores, first, last = results.scores_around(interval)
    if not len(scores) or not np.isfinite(scores).any():
        return element("p", "The scores around it are not known.", class_="note")
    columns = min(COLUMNS, len(scores))
    tops = highest(np.asarray(scores, dtype=np.float64), columns)
    low, high = float(np.nanmin(tops)), float(np.nanmax(tops))
    height = 0.04 + 0.92 * (tops - low) / max(high - low, 1e-12)
    shade = element("i", class_="shade", style=place(first / len(scores), last / len(scores)))
    drawn = drawing(area(edges(len(scores), columns), height, 0.0, "below"))
    caption = element("figcaption", "Score, and the interval in question")
    return element("figure", caption, element("div", drawn, shade, class_="plot"), class_="around")
