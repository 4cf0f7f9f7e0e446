import importlib
import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from tsadc.cli import console
from tsadc.detectors.base import ScoringProgress


def now(update: int, epoch_ended: bool, validation: float | None = 0.25) -> SimpleNamespace:
    return SimpleNamespace(
        epoch=2, epochs=5, update=update, updates=10, loss=0.5, validation=validation, seconds_left=61.4,
        epoch_ended=epoch_ended,
    )  # fmt: skip


def test_echo_keeps_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[bold] is not markup, :house: is not a picture " + "and a long line is not broken " * 10
    console.echo(text)
    assert capsys.readouterr().out == text + "\n"


def test_print_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("a sentence\nin two lines")
    assert capsys.readouterr() == ("", "tsadc: a sentence in two lines\n")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("use --every 1min (in Python: Reading(every='1min') for files, .mean() for frames).", "use --every 1min."),
        ("add --missing 'a)(b' (in Python: Reading(missing=['a)(b'])); see.", "add --missing 'a)(b'; see."),
        ("leave out --detector (in Python: `detector`), or stop.", "leave out --detector, or stop."),
    ],
)
def test_advice_on_the_command_line_is_about_options(
    message: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console.print_error(message)
    console.show([("fit", message)])
    out, err = capsys.readouterr()
    assert err == f"tsadc: {shown}\n"
    assert out.rstrip() == f"fit  {shown}"


def test_show_aligns_what_and_value(capsys: pytest.CaptureFixture[str]) -> None:
    console.show([("rows", "100"), ("variables", "a [b] :house: [/c]")])
    rows, variables = capsys.readouterr().out.splitlines()
    assert rows.rstrip() == "rows       100"
    assert variables.rstrip() == "variables  a [b] :house: [/c]"


def test_progress_without_a_terminal_is_a_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress_bar() as report:
        report(now(3, epoch_ended=False))
        report(now(4, epoch_ended=True))
        report(now(4, epoch_ended=True, validation=None))
        report(ScoringProgress(1, 30))
    assert capsys.readouterr().out.splitlines() == [
        "epoch 2/5  loss 0.5000  validation 0.2500  0:01:01 left",
        "epoch 2/5  loss 0.5000  0:01:01 left",
    ]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (now(4, epoch_ended=True), "epoch 2/5  loss 0.5000  validation 0.2500  0:01:01 left"),
        (ScoringProgress(7, 30), "scoring"),
    ],
)
def test_progress_on_a_terminal_is_a_bar_that_goes_away(
    told: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120, highlight=False)
    monkeypatch.setattr(console, "console", terminal)
    with console.progress_bar() as report:
        report(told)
    assert words in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")


def test_only_the_first_of_several_processes_speaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        monkeypatch.setenv("RANK", "1")
        importlib.reload(console)
        console.echo("hello")
        console.show([("rows", "100")])
        with console.progress_bar() as report:
            report(now(4, epoch_ended=True))
        assert not console.IS_MAIN_PROCESS
        assert capsys.readouterr().out == ""
    finally:
        monkeypatch.delenv("RANK")
        importlib.reload(console)
    assert console.IS_MAIN_PROCESS


def test_what_a_terminal_would_obey_is_shown(capsys):
    name = "a\x1b[2Jb\x07\u202ec\udcffd\x9be"
    shown = r"a\x1b[2Jb\x07\u202ec\udcffd\x9be"
    console.print_error(f"{name} is damaged.")
    console.echo(f"{name} is fine.\nµ 😀 second line")
    console.show([(name, f"{name}\nmore")])
    answer = capsys.readouterr()
    assert answer.err == f"tsadc: {shown} is damaged.\n"
    first, second, *table = answer.out.splitlines()
    assert (first, second) == (f"{shown} is fine.", "µ 😀 second line")
    assert [line.split() for line in table] == [[shown, shown], ["more"]]
