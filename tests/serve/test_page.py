"""The page of `tsadc serve` in a real browser, against a real service: live updates, keyboard, phone, tokens."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pandas as pd
import pytest
from live import INTERVAL, NAMES, START, Served, batch, wait_for, waves

from pages import CHROMIUM, Page
from tsadc.serve import schema
from tsadc.serve.config import Server
from tsadc.serve.page import OWN, REPORT_STYLE, page_file
from tsadc.serve.store import Store
from tsadc.show import words

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here to drive a browser")
expect = playwright.expect
expect.set_options(timeout=30_000)
browser_only = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to run the page")

HOSTILE = "<img src=x onerror=alert(1)> & Öl/Pumpe"
FAULTY = "pump 7"
ROWS = 400
LOST = ("net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_CONNECTION_RESET")
EXPECTED = (*LOST, "400", "401", "403", "404")  # the browser itself reports these answers


def config_file(folder: Path, model: Path) -> Path:
    """A configuration with a port of its own, so that the service can come back at the same address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = folder / "live.toml"
    file.write_text(
        f'[server]\nport = {port}\nexpire_minutes = 1e6\nkeep_days = 1e5\n[model.plant]\nfolder = "{model}"\n'
    )
    return file


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, live_model: Path) -> Iterator[Served]:
    """A service with three entities: one with a fault that goes on, a calm one, and one with a hostile name."""
    service = Served(config_file(tmp_path_factory.mktemp("served"), live_model))
    for entity, fault in ((FAULTY, (340, ROWS)), ("pump 8", None), (HOSTILE, None)):
        assert service.push(batch(entity, 0, ROWS, fault=fault)).status_code == 200
    service.scored()
    yield service
    service.stop()
    (live_model / "verdicts.json").unlink(missing_ok=True)  # other modules use the model


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        try:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=quiet)
        except playwright.Error as error:
            pytest.skip(f"chromium would not start here: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open the page of a service. At the end, there were no errors in the console and no external requests."""
    contexts, wrong, hosts = [], [], set()

    def open_page(service: Served, place: str = "#/", width: int = 1280, **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        page.goto(f"{service.client.base_url}/{place}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in wrong if not any(known in text for known in EXPECTED)] == []
    assert all(host.startswith("127.0.0.1:") for host in hosts)


def live(page: Any) -> None:
    expect(page.locator("#connection")).to_have_text("Live")


def episode(service: Served, entity: str, state: str = "open") -> dict[str, Any]:
    found = service.client.get("/v1/episodes", params={"entity": entity, "state": state}).json()["episodes"]
    return max(found, key=lambda own: own["severity"])


def test_the_html_is_well_formed_and_nothing_external_or_inline_is_in_the_files() -> None:
    index = page_file("index.html")
    assert index is not None
    page = Page(index.content.decode().replace("<!doctype html>", ""))
    assert not page.of("style")
    assert all(own.get("src") for own in page.of("script"))
    assert not any(name == "style" or name.startswith("on") for _, own in page.seen for name in own)
    assert [own["href"] for own in page.of("link")] == ["page/icon.svg", f"page/{REPORT_STYLE}", "page/page.css"]
    for name in (*OWN, REPORT_STYLE):
        file = page_file(name)
        assert file is not None
        found = set(re.findall(rb"https?://[^\"' ]+|@import|innerHTML|insertAdjacentHTML|eval\(", file.content))
        assert found <= {b"http://www.w3.org/2000/svg"}
    assert page_file("../config.py") is None


@browser_only
def test_entities_come_by_severity_and_names_are_text(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served)
    names = page.locator("#rows .name")
    expect(names).to_have_text([FAULTY, HOSTILE, "pump 8"])
    expect(page.locator("#verdict")).to_have_text("1 entity of 3 has an alarm.")
    expect(page.locator("#rows a").first).to_contain_text("pressure")
    assert page.title() == "(1) tsadc"
    assert page.locator("#rows img").count() == 0
    expect(page.locator("#detail .episode")).to_have_count(1)
    expect(page.locator("#detail .episode .name")).to_contain_text([f"{FAULTY} since "])
    expect(page.locator("#detail .episode .name")).to_contain_text([", ongoing"])
    page.locator("#rows a").nth(1).click()
    expect(page.locator("#detail h2")).to_have_text(HOSTILE)
    expect(page.locator("#detail .charts figure")).to_have_count(1 + len(NAMES))


@browser_only
def test_search_and_filter_leave_what_matches(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served)
    expect(page.locator("#rows a")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("l/pump")
    expect(page.locator("#rows .name")).to_have_text([HOSTILE])
    page.keyboard.press("Escape")
    expect(page.locator("#rows a")).to_have_count(3)
    page.get_by_role("button", name="Normal 2").click()
    expect(page.locator("#rows .name")).to_have_text([HOSTILE, "pump 8"])
    page.locator("#search").fill("nothing like it")
    expect(page.locator("#empty")).to_have_text("No entity matches “nothing like it” and is normal.")


@browser_only
def test_new_rows_appear_and_a_new_alarm_is_announced(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served, "#/entity/pump%2088")
    expect(page.locator("#detail .lead")).to_have_text("There is no entity 'pump 88'.")
    assert served.push(batch("pump 88", 0, 320, seed=1)).status_code == 200
    expect(page.locator("#detail h2")).to_have_text("pump 88")
    expect(page.locator("#detail .charts figure")).to_have_count(1 + len(NAMES))
    live(page)
    assert served.push(batch("pump 88", 320, 80, seed=1, fault=(330, 400))).status_code == 200
    expect(page.locator("#announced")).to_contain_text("New alarm: pump 88")
    expect(page.locator("#detail .state")).to_contain_text("Alarm since")
    expect(page.locator("#detail .card .why li").first).to_contain_text("pressure")
    expect(page.locator("#detail .plot .shade").first).to_be_attached()
    expect(page.locator("#rows a[aria-current]")).to_contain_text("pump 88")


@browser_only
def test_the_chart_is_read_by_keyboard_and_pointer(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served, "#/entity/pump%207")
    chart = page.locator(".charts")
    chart.focus()
    page.keyboard.press("End")
    values = batch(FAULTY, 0, ROWS, fault=(340, ROWS)).values[-1]
    reading = page.locator("figure", has_text="pressure").locator(".readout")
    expect(reading).to_contain_text("usual")
    shown = [float(text.replace("\N{MINUS SIGN}", "-")) for text in re.findall(r"[−\d.]+", reading.inner_text())]
    assert min(shown[:2]) - 0.02 <= values[NAMES.index("pressure")] <= max(shown[:2]) + 0.02
    expect(page.locator("figure", has_text="Score").locator(".readout")).to_contain_text("threshold")
    expect(page.locator(".cursor-time")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".cursor-time")).to_be_hidden()
    page.locator(".charts .plot").nth(1).hover()
    expect(page.locator(".cursor-time")).to_be_visible()


@browser_only
def test_a_click_counts_although_new_rows_come_while_the_button_is_down(
    served: Served, visit: Callable[..., Any]
) -> None:
    assert served.push(batch("pump 9", 0, 200)).status_code == 200
    page = visit(served, "#/entity/pump%209")
    mute = page.locator('[data-key="mute"]')
    expect(mute).to_be_visible()
    live(page)
    mute.hover()
    page.mouse.down()
    assert served.push(batch("pump 9", 200, 60)).status_code == 200
    served.scored()
    page.wait_for_timeout(2500)
    page.mouse.up()
    expect(page.locator("#form-dialog")).to_be_visible()


@browser_only
def test_an_episode_is_acknowledged_and_judged_by_keyboard_alone(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served)
    expect(page.locator("#rows a")).not_to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type(FAULTY)
    expect(page.locator("#rows .name")).to_have_text([FAULTY])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#detail h2")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator('[data-key="open"]')).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#detail h2")).to_contain_text("2026")
    acknowledge = page.get_by_role("button", name="Acknowledge")
    expect(acknowledge).to_be_visible()
    acknowledge.focus()
    page.keyboard.press("Enter")
    acknowledged = page.get_by_role("button", name="Acknowledged", exact=True)
    expect(acknowledged).to_be_disabled()
    expect(acknowledged).to_be_focused()
    assert episode(served, FAULTY)["state"] == "acknowledged"

    page.locator('[data-verdict="planned"]').focus()
    page.keyboard.press("Enter")
    dialog = page.locator("#form-dialog")
    expect(dialog.locator("input:checked")).to_have_value("planned")
    page.keyboard.press("Tab")
    page.keyboard.type("<b>cleaning</b>")
    page.keyboard.press("Tab")
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#detail .facts")).to_contain_text("Planned by Ada: <b>cleaning</b>")
    judged = episode(served, FAULTY)
    assert [judged[name] for name in ("verdict", "verdict_note", "verdict_by")] == ["planned", "<b>cleaning</b>", "Ada"]

    page.keyboard.press("Escape")
    expect(page.locator("#detail h2")).to_have_text(FAULTY)
    page.keyboard.press("Escape")
    expect(page.locator("#rows a", has_text=FAULTY)).to_be_focused()
    expect(page.locator('[data-filter="acknowledged"]')).to_have_text("Acknowledged 1")
    seen = page.evaluate(
        "async (time) => (await import('/page/words.js')).brief(Date.parse(time))", judged["acknowledged"]
    )
    expect(page.locator("#rows a", has_text=FAULTY)).to_contain_text(f"Acknowledged at {seen}")


@browser_only
def test_a_mute_is_added_and_removed(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served, "#/entity/pump%208")
    page.locator('[data-key="mute"]').click()
    page.get_by_label("Variable").select_option("flow")
    page.get_by_label("For").select_option("480")
    page.get_by_label("Note").fill("tests")
    page.get_by_label("Your name").fill("Bo")
    page.get_by_role("button", name="Mute", exact=True).click()
    expect(page.locator("#form-dialog")).to_be_hidden()
    (mute,) = served.client.get("/v1/mutes").json()["mutes"]
    assert (mute["entity"], mute["variable"], mute["note"], mute["by"]) == ("pump 8", "flow", "tests", "Bo")
    assert abs(pd.Timestamp(mute["until"]) - pd.Timestamp.now("UTC") - pd.Timedelta(hours=8)) < pd.Timedelta(minutes=2)
    page.get_by_role("link", name="Mutes").click()
    expect(page.locator("#detail tbody tr")).to_contain_text(["pump 8"])
    page.get_by_role("button", name="Remove the mute of pump 8").click()
    expect(page.locator("#detail")).to_contain_text("Nothing is muted.")
    assert served.client.get("/v1/mutes").json() == {"mutes": []}


@browser_only
def test_that_all_entities_are_muted_is_said_until_it_is_over(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served, "#/mutes")
    live(page)
    banner = page.locator("#muted")
    for entity, variable in (("pump*", ""), ("*", "flow")):
        mute = {"entity": entity, "variable": variable}
        assert served.client.post("/v1/mutes", json=mute).status_code == 201
    page.locator('[data-key="mute"]').click()
    page.get_by_label("Entity", exact=True).fill("*")
    page.get_by_label("For").select_option("10080")
    page.get_by_role("button", name="Mute", exact=True).click()
    expect(banner).to_have_text(re.compile(r"All entities are muted until \w+ \d+ \w+ \d{4}, .*: no alert is sent\."))
    assert served.client.post("/v1/mutes", json={"entity": "*"}).status_code == 201
    page.reload()
    expect(banner).to_contain_text("All entities are muted until the mute is removed: no alert is sent.")
    for mute in served.client.get("/v1/mutes").json()["mutes"]:
        served.client.delete(f"/v1/mutes/{mute['id']}")
    page.reload()
    live(page)
    expect(page.locator("#detail")).to_contain_text("Nothing is muted.")
    expect(banner).to_be_hidden()


@browser_only
def test_no_alarm_is_not_all_that_is_said_while_one_is_muted(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served)
    counts = {"open": 0, "acknowledged": 0, "muted": 1, "level": 2, "ok": 3, "unscored": 0}
    found = served.client.get("/v1/entities").json()
    page.route("**/v1/entities?*", lambda route: route.fulfill(json={**found, "counts": counts}))
    page.reload()
    verdict = page.locator("#verdict")
    expect(verdict).to_have_text("No alarm on 6 entities, but 1 has a muted alarm and 2 have a new level.")
    expect(verdict.locator("strong")).to_have_count(0)
    counts.update(muted=0, level=0)
    page.reload()
    expect(verdict).to_have_text("No alarm on 3 entities.")
    expect(verdict.locator("strong")).to_have_text("No alarm")


TRACK_CONTRAST = """() => {
  const row = document.querySelector("#rows a[aria-current]");
  if (!row) return 0;
  const draw = document.createElement("canvas").getContext("2d");
  const light = (element) => {
    draw.fillStyle = getComputedStyle(element).backgroundColor;
    draw.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...draw.getImageData(0, 0, 1, 1).data].map((c) => (c / 255) ** 2.2);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const [dark, bright] = [light(row), light(row.querySelector(".bar"))].sort((a, b) => a - b);
  return bright / dark;
}"""


@browser_only
def test_the_track_of_a_severity_bar_is_visible_on_every_row(served: Served, visit: Callable[..., Any]) -> None:
    for theme in ("light", "dark"):
        page = visit(served, "#/entity/pump%207", color_scheme=theme)
        expect(page.locator("#rows a[aria-current] .bar")).to_be_visible()
        # Again if the row has been drawn anew meanwhile: one that is no longer on the page has no colour.
        assert wait_for(lambda page=page: page.evaluate(TRACK_CONTRAST) > 1.4), theme


@browser_only
def test_models_and_health_are_shown_and_refused_rows_are_named(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served, "#/models")
    expect(page.locator("#detail tbody tr")).to_contain_text(["plant"])
    row = {"entity": "pump 8", "time": START, "values": {"nonsense": 1.0}}
    assert served.client.post("/v1/rows", json={"rows": [row]}).status_code == 400
    page.get_by_role("link", name="Health").click()
    expect(page.locator("#detail .lead")).to_have_text("The service works, but not all is well:")
    expect(page.locator("#detail .problems")).to_contain_text("nonsense")
    page.reload()
    expect(page.locator("#problems")).to_be_visible()
    expect(page.locator("#detail .facts")).to_contain_text("Scoring")


@browser_only
def test_a_lost_connection_is_shown_and_found_again(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served, "#/entity/pump%208")
    live(page)
    before = page.locator("#detail .facts").inner_text()
    served.stop()
    expect(page.locator("#connection")).to_contain_text("Not connected since")
    page.locator('[data-key="mute"]').click()
    page.get_by_role("button", name="Mute", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("it is not known whether this was saved")
    page.keyboard.press("Escape")
    served.start()
    assert served.push(batch("pump 8", ROWS, 50)).status_code == 200
    live(page)
    expect(page.locator("#detail .facts")).not_to_have_text(before, use_inner_text=True)


@browser_only
def test_of_a_change_that_takes_long_the_page_does_not_say_that_it_failed(
    served: Served, visit: Callable[..., Any]
) -> None:
    page = visit(served, "#/mutes")
    page.locator('[data-key="mute"]').click()
    page.get_by_label("Entity", exact=True).fill("slow")

    def late(route: Any) -> None:
        route.fetch()  # the service does it, but its answer does not arrive

    page.route("**/v1/mutes", lambda route: late(route) if route.request.method == "POST" else route.continue_())
    page.evaluate("const own = AbortSignal.timeout; AbortSignal.timeout = () => own.call(AbortSignal, 1000)")
    page.get_by_role("button", name="Mute", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("has not answered within 20 s and may still be at work")
    page.keyboard.press("Escape")
    expect(page.locator("#detail tbody tr")).to_contain_text(["slow"])
    page.get_by_role("button", name="Remove the mute of slow").click()
    expect(page.locator("#detail")).to_contain_text("Nothing is muted.")


@browser_only
def test_what_a_chart_leaves_out_is_said(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served)
    asked: list[dict[str, list[str]]] = []

    def change(path: str, changed: dict[str, Any]) -> None:
        def answer(route: Any) -> None:
            asked.append(parse_qs(urlsplit(route.request.url).query))
            response = route.fetch()
            route.fulfill(response=response, json={**response.json(), **changed})

        page.route(path, answer)

    change("**/v1/entities/pump%208?from=*", {"verdicts": 30_000})
    change("**/v1/entities/pump%208/rows?from=*", {"coverage": 0.25})
    page.evaluate("location.hash = '#/entity/pump%208'")
    note = page.locator("#detail .left-out")
    expect(note).to_contain_text(re.compile(r"Each column of the score is the highest of about [\d,]+ verdicts"))
    expect(note).to_contain_text("The lines show 25\u202f% of the rows, evenly spread; a shorter period shows all.")
    page.get_by_label("Period").select_option("7 days")
    expect(page.locator(".charts .tick").first).to_contain_text(re.compile("[A-Z]"))  # days
    scores, rows = asked[-2:]
    week = 7 * 24 * 3600 * 1000
    assert [own["max_points"] for own in (scores, rows)] == [["400"], ["400"]]
    assert int(rows["to"][0]) - int(rows["from"][0]) == week + 1
    assert int(scores["from"][0]) == int(rows["from"][0])


@browser_only
def test_what_is_refused_is_said_above_what_was_drawn(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served, "#/entity/pump%208")
    expect(page.locator(".charts")).to_be_visible()
    page.route("**/rows?from=*", lambda route: route.fulfill(status=400, json={"error": "There is too much of it."}))
    page.get_by_label("Period").select_option("7 days")
    expect(page.locator("#detail .refused")).to_have_text("There is too much of it.")
    expect(page.locator(".charts")).to_be_visible()
    expect(page.locator("#detail")).not_to_have_attribute("aria-busy", "true")
    page.unroute("**/rows?from=*")
    page.get_by_label("Period").select_option("1 hour")
    expect(page.locator("#detail .refused")).to_have_count(0)
    page.route("**/rows?from=*", lambda route: None)  # it never answers
    page.evaluate("const own = AbortSignal.timeout; AbortSignal.timeout = () => own.call(AbortSignal, 1000)")
    page.get_by_label("Period").select_option("7 days")
    expect(page.locator("#detail .refused")).to_contain_text("has not answered within 20 s, so this is not up to date")


@browser_only
def test_ticks_are_at_round_local_times_across_a_change_of_the_clocks(
    served: Served, visit: Callable[..., Any]
) -> None:
    page = visit(served, timezone_id="Europe/Berlin")

    def ticks(first: str, last: str) -> list[tuple[str, str]]:
        limits = [pd.Timestamp(text).timestamp() * 1000 for text in (first, last)]
        run = "async ([from, to]) => (await import('/page/words.js')).timeTicks(from, to)"
        found = page.evaluate(run, limits)
        times = [pd.Timestamp(tick["time"], unit="ms", tz="Europe/Berlin") for tick in found]
        return [(f"{time:%m-%d %H:%M%z}", tick["label"]) for time, tick in zip(times, found, strict=True)]

    assert ticks("2026-03-11T09:00Z", "2026-04-10T09:00Z") == [
        ("03-12 00:00+0100", "12 Mar"),
        ("03-19 00:00+0100", "19 Mar"),
        ("03-26 00:00+0100", "26 Mar"),
        ("04-02 00:00+0200", "2 Apr"),
        ("04-09 00:00+0200", "9 Apr"),
    ]
    assert ticks("2026-03-28T22:30Z", "2026-03-29T03:30Z") == [  # 02:00 does not exist
        ("03-29 00:00+0100", "29 Mar"),
        ("03-29 01:00+0100", "01:00"),
        ("03-29 03:00+0200", "03:00"),
        ("03-29 04:00+0200", "04:00"),
        ("03-29 05:00+0200", "05:00"),
    ]
    assert ticks("2026-10-24T23:30Z", "2026-10-25T02:30Z") == [  # 02:00 comes twice
        ("10-25 01:30+0200", "01:30"),
        ("10-25 02:00+0200", "02:00"),
        ("10-25 02:30+0200", "02:30"),
        ("10-25 02:00+0100", "02:00"),
        ("10-25 02:30+0100", "02:30"),
        ("10-25 03:00+0100", "03:00"),
        ("10-25 03:30+0100", "03:30"),
    ]


@browser_only
def test_a_phone_shows_one_side_at_a_time_and_nothing_is_cut(served: Served, visit: Callable[..., Any]) -> None:
    for theme, background in (("light", "rgb(250, 249, 246)"), ("dark", "rgb(20, 24, 27)")):
        page = visit(served, width=375, color_scheme=theme, reduced_motion="reduce", has_touch=True)
        row = page.locator("#rows a", has_text=FAULTY)
        expect(row).to_be_visible()
        expect(page.locator("#detail")).to_be_hidden()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
        row.tap()
        expect(page.locator(".charts")).to_be_visible()
        expect(page.locator("#list")).to_be_hidden()
        for place in ("#/episodes", "#/mutes", "#/models", "#/health", f"#/episode/{episode(served, FAULTY)['id']}"):
            page.evaluate("place => { location.hash = place; }", place)
            expect(page.locator("#detail h2")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") == 375
            assert page.evaluate("document.getElementById('detail').scrollWidth") <= 375
            box = page.get_by_role("link", name="Health").bounding_box()
            assert box["x"] + box["width"] <= 375
    page = visit(served, "#/entity/pump%207", width=320)
    page.locator("#detail .state > .dot + span").evaluate("said => { said.textContent = 'Alarm '.repeat(20); }")
    dot, said = (page.locator(f"#detail .state > {part}").bounding_box() for part in (".dot", ".dot + span"))
    assert said["x"] > dot["x"] + dot["width"]
    assert said["y"] < dot["y"] < said["y"] + said["height"]


@browser_only
def test_a_thousand_entities_stay_usable(served: Served, visit: Callable[..., Any]) -> None:
    shared = {
        "names": NAMES,
        "times": (START + np.arange(2) * INTERVAL).tolist(),
        "values": waves(np.arange(2)).tolist(),
    }
    own = [{**shared, "entity": f"unit {number:04}"} for number in range(1000)]
    assert served.client.post("/v1/rows", json={"batches": own}).json()["stored"] == 2000
    page = visit(served)
    expect(page.locator("#verdict")).to_contain_text("1,00")
    assert page.locator("#rows li").count() < 40
    page.locator("#search").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    last = page.locator("#rows a", has_text="unit 0999")
    expect(last).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#detail h2")).to_have_text("unit 0999")
    page.locator("#search").fill("unit 05")
    expect(page.locator("#rows .name").first).to_have_text("unit 0500")
    page.locator("#entities").evaluate("box => { box.scrollTop = 60 * 55; }")
    expect(page.locator("#rows .name", has_text="unit 0555")).to_be_visible()
    assert page.locator("#rows li").count() < 40


@browser_only
def test_an_entity_is_not_called_normal_before_it_is_scored(served: Served, visit: Callable[..., Any]) -> None:
    assert served.push(batch("fresh", 0, 5)).status_code == 200
    page = visit(served)
    page.locator("#search").fill("fresh")
    row = page.locator("#rows a")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("Not scored yet, last row")
    expect(row).to_have_attribute("data-state", "unscored")
    page.get_by_role("button", name="Normal").click()
    expect(page.locator("#empty")).to_have_text("No entity matches “fresh” and is normal.")


@browser_only
def test_a_long_name_leaves_room_for_the_time_of_an_episode(served: Served, visit: Callable[..., Any]) -> None:
    name = "n" * 195
    assert served.push(batch(name, 0, ROWS, fault=(340, ROWS))).status_code == 200
    served.scored()
    for width in (1280, 375):
        page = visit(served, "#/episodes", width=width)
        row = page.locator("#detail .episode", has_text="nnn")
        line, time_ = row.locator(".name").bounding_box(), row.locator("time").bounding_box()
        assert line["x"] <= time_["x"]
        assert time_["x"] + time_["width"] <= line["x"] + line["width"] + 1


@browser_only
def test_a_token_is_asked_for_and_kept_for_the_tab(tmp_path: Path, live_model: Path, visit: Callable[..., Any]) -> None:
    reading, writing, administering = "r" * 20, "w" * 20, "a" * 20
    tokens = {"TSADC_READ_TOKEN": reading, "TSADC_WRITE_TOKEN": writing, "TSADC_ADMIN_TOKEN": administering}
    service = Served(config_file(tmp_path, live_model), **tokens)
    try:
        page = visit(service)
        dialog = page.locator("#token-dialog")
        expect(dialog).to_be_visible()
        page.get_by_role("textbox", name="Token").fill("wrong" * 5)
        page.keyboard.press("Enter")
        expect(page.locator("#token-text")).to_contain_text("did not accept")
        page.get_by_role("textbox", name="Token").fill(writing)
        page.keyboard.press("Enter")
        for _ in range(2):
            expect(page.locator("#token-text")).to_have_text(
                "The write token may not do this; it needs the read token. "
                "Enter another one; it is kept until this tab is closed."
            )
            page.reload()
            expect(dialog).to_be_visible()
        page.get_by_role("textbox", name="Token").fill(reading)
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        live(page)
        page.reload()
        live(page)
        expect(dialog).to_be_hidden()
        page.get_by_role("link", name="Mutes").click()
        page.locator('[data-key="mute"]').click()
        page.get_by_label("Entity", exact=True).fill("*")
        page.get_by_role("button", name="Mute", exact=True).click()
        expect(page.locator("#notices")).to_contain_text("it needs the admin token")
        assert reading not in page.url
    finally:
        service.stop()


@browser_only
def test_numbers_and_durations_are_worded_as_in_the_report(served: Served, visit: Callable[..., Any]) -> None:
    page = visit(served)
    run = "async ([name, values]) => values.map((await import('/page/words.js'))[name])"
    numbers = [0.0, 1.0, 0.01234, -12.345, 99.94, 123.4, -98765.4, 2.5e7, -3.21e-5]
    assert page.evaluate(run, ["number", numbers]) == [words.number(value) for value in numbers]
    shares = [0.0, 0.004, 0.0994, 0.5, 1.0]
    assert page.evaluate(run, ["percent", shares]) == [words.percent(value) for value in shares]
    levels = [0.2, 42.9, 95.0, 99.0, 99.5]
    assert page.evaluate(run, ["severity", levels]) == [words.severity(value) for value in levels]
    assert page.evaluate(run, ["severityWord", levels]) == [words.severity_word(value) for value in levels]
    periods = [30.0, 7000.0, 86400.0 * 40, 3.2e9]
    expected = [words.return_period(pd.Timedelta(seconds=value)) for value in periods]
    assert page.evaluate(run, ["returnPeriod", periods]) == expected


@browser_only
def test_a_refit_is_compared_and_a_new_level_is_decided(
    served: Served, visit: Callable[..., Any], live_model: Path
) -> None:
    compared = {
        "compared": {"days": 7.0, "observations": 40},
        "alarms": {"present": 2, "candidate": 9},
        "drifting": {"present": [], "candidate": ["pump 8"]},
        "agreement": 0.85,
        "objections": ["it raises 9 alarms in the last 7 days, the present one 2"],
    }
    level = [{"name": "flow", "usual": 4.1, "now": 5.3}]
    candidate = live_model.with_name(f"{live_model.name}.candidate")
    candidate.mkdir()
    store = Store(Server(store=str(served.file.parent / "tsadc.sqlite")).url)
    with store.writing() as connection:
        connection.execute(
            schema.refreshes.insert().values(
                model="plant", state="candidate", started=time.time(), comparison=compared, note=""
            )
        )
        connection.execute(
            schema.proposals.insert().values(
                entity=1, state="open", lasting=True, since=START, above=13, observations=14, variables=level,
                created=time.time(), by="",
            )
        )  # fmt: skip
        adapting = {"entity": 2, "state": "adapting", "lasting": True, "since": START, "variables": [], "by": ""}
        connection.execute(
            schema.proposals.insert().values(id=100, above=10, observations=10, created=time.time(), **adapting)
        )
    store.close()
    [own] = [own for own in served.client.get("/v1/entities?limit=1000").json()["entities"] if own["level_since"]]
    assert pd.Timestamp(own["level_since"]).value == START
    page = visit(served, f"#/entity/{quote(own['name'], safe='')}")
    expect(page.locator("#proposed")).to_have_text("1 1 new level to decide about")
    note = page.locator("#detail .new-level")
    expect(note).to_have_text(re.compile(r"At a new level since \w+ \d+ \w+ 2026, .*: learn it as normal\?"))
    note.get_by_role("link").click()
    expect(page.locator("#detail h4", has_text=own["name"])).to_be_focused()
    detail = page.locator("#detail")
    for name in ("Present model", "New model", "Variables"):
        expect(detail.get_by_role("columnheader", name=name)).to_have_css("text-align", "right")
    expect(detail.locator(".facts", has_text="Started")).to_contain_text(
        str(time.localtime().tm_year)
    )  # when it was started
    expect(detail).to_contain_text("The new model waits for a decision.")
    expect(detail.get_by_role("row", name="Alarms")).to_contain_text("29")
    expect(detail.get_by_role("row", name="Entities that drift")).to_contain_text("pump 8")
    for text in ("85 % of 40 observations", "it raises 9 alarms", "13 of 14 observations", "usually 4.10, now 5.30"):
        expect(detail).to_contain_text(text)
    for pressed, left in (
        ("Remove the new model", "The new model was refused. Refused by Bo."),
        ("It is not normal", ""),
    ):
        detail.get_by_role("button", name=pressed).click()
        page.get_by_label("Your name").fill("Bo")
        page.locator("#form-dialog").get_by_role("button", name=pressed).click()
        expect(page.locator("#form-dialog")).to_be_hidden()
        expect(detail).to_contain_text(left)
    expect(detail.locator("section")).to_have_count(1)
    expect(detail.locator("section")).to_contain_text("The model learns the new level; that can take minutes.")
    expect(detail.locator("section button")).to_have_count(0)
    assert not candidate.exists()
    expect(page.locator("#proposed")).to_be_hidden()
    [_, proposal] = served.client.get("/v1/proposals").json()["proposals"]
    assert (proposal["state"], proposal["by"]) == ("refused", "Bo")
