"""Write the tables and the plot of `docs/performance.md` from the records of `benchmarks/speed.py` alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsadc.atomic import write_file

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "speed"
PAGE, PLOT = ROOT / "docs" / "tables" / "speed.md", ROOT / "docs" / "performance-growth.svg"
WITHIN = 0.15  # relative departure from a line that still counts as linear


def records(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the measurements of each section."""
    return {file.stem: json.loads(file.read_text())["found"] for file in sorted(folder.glob("*.json"))}


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return targets and measurements, and whether each target is met; sections that were not run are left out."""
    lines = [line for name, make in LINES.items() if name in found for line in make(found[name])]
    body = [f"| {what} | {aim} | {got} | {'met' if met else '**missed**'} |" for what, aim, got, met in lines]
    return "\n".join(["| what | target | measured | |", "|---|---|---|---|", *body])


Line = tuple[str, str, str, bool]


def _kernel(of: Mapping[str, Any]) -> list[Line]:
    got = f"{of['ratio']:.1f}x ({of['reference seconds']:.2f} s to {of['fast seconds']:.3f} s), error {of['error']:.1e}"
    what = "DPLR kernel, 512 channels, L = 600, forward + backward"
    return [(what, "≥ 10x, error ≤ 1e-5", got, of["ratio"] >= 10 and of["error"] <= 1e-5)]


def _training(of: Mapping[str, Any]) -> list[Line]:
    time = f"{of['ratio']:.1f}x ({of['reference seconds']:.1f} s to {of['fast seconds']:.1f} s)"
    return [("training step, batch 4", "≥ 5x", time, of["ratio"] >= 5)]


def _memory(of: Mapping[str, Any]) -> list[Line]:
    got = f"{of['ratio']:.2f}x ({of['reference MB']:,} MB to {of['fast MB']:,} MB)"
    return [("its peak memory", "≤ 0.45x", got, of["ratio"] <= 0.45)]


def _scoring(of: Mapping[str, Any]) -> list[Line]:
    exact = f"{of['ratio']:.1f}x ({of['reference seconds']:.0f} s to {of['fast seconds']:.1f} s)"
    few = f"{of['few-step ratio']:.0f}x ({of['few seconds']:.2f} s)"
    return [
        (
            "scoring, exact 50 steps, same noise",
            "≥ 12x, difference ≤ 1e-5",
            f"{exact}, difference {of['largest difference']:.1e}",
            of["ratio"] >= 12 and of["largest difference"] <= 1e-5,
        ),
        (
            "scoring by 5 complementary masks, one estimate each, the same network",
            "≥ 100x",
            few,
            of["few-step ratio"] >= 100,
        ),
    ]


def _agreement(of: Mapping[str, Any]) -> list[Line]:
    whats = {
        "a mask each": "rank correlation of such scores s1 with exact ones, against that of a second seed",
        "the same masks": "the same where the masks are given and only steps and noise differ",
    }
    rows: list[Line] = []
    for name, what in whats.items():
        one, (low, high) = of[name], of[name]["interval"]
        pair = f"{one['few steps']:.2f} against {one['another seed']:.2f}"
        got = f"{pair}: {one['difference']:+.2f} ({low:+.2f} to {high:+.2f})"
        rows.append((f"{what}¹", "at most .01 less", got, one["difference"] >= -0.01))
    return rows


def _growth(of: Mapping[str, Any]) -> list[Line]:
    rows: list[Line] = []
    for name, what in (("length", "L from 600 to 12,000"), ("variables", "K from 12 to 128")):
        worst = max(departures(of[f"seconds by {name}"]), key=abs)
        rows.append((f"cost of a step in {what}", "linear within 15 %", f"off by {worst:+.0%}", abs(worst) <= WITHIN))
    memory = of["ICBEB shape, MB"]
    return [("memory at K = 12, L = 6,000, batch 4", "< 8 GB", f"{memory:,} MB", memory < 8192), *rows]


def profile(of: Mapping[str, Any]) -> str:
    """Return seconds and shares by kind of work, of the reference and of the fast path."""
    sides = [(work, side) for work in ("training step", "scoring") for side in ("reference", "fast")]
    columns = [of[work][side] for work, side in sides]
    totals = [sum(column.values()) for column in columns]
    head = "| | " + " | ".join(f"{work}, {side}" for work, side in sides) + " |"
    lines = [f"At {of['widths']}:", "", head, "|---|" + "---|" * len(sides)]
    for kind in columns[0]:
        texts = [f"{one[kind]:.2f} s, {one[kind] / total:.0%}" for one, total in zip(columns, totals, strict=True)]
        lines.append(f"| {kind} | {' | '.join(texts)} |")
    return "\n".join([*lines, f"| all | {' | '.join(f'{total:.2f} s' for total in totals)} |"])


def notes(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the footnotes of the table."""
    if "agreement" not in found:
        return ""
    of = found["agreement"]
    return f"\n\n¹ {of['observations']} observations, in brackets 95 % bootstrap intervals; {of['widths']}."


def page(measured: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with all tables."""
    parts = ["# Speed and memory: targets and measurements", table(measured) + notes(measured)]
    parts += ["## Where the time goes", profile(measured["profile"])] if "profile" in measured else []
    return "\n\n".join(parts) + "\n"


def departures(seconds: Mapping[str, float]) -> list[float]:
    """Return how far each measurement is from a line a + b n through the smallest and the largest size, so that a fixed
    cost does not count."""
    sizes = [int(size) for size in seconds]
    times = list(seconds.values())
    slope = (times[-1] - times[0]) / (sizes[-1] - sizes[0])
    return [time / (times[0] + slope * (size - sizes[0])) - 1 for size, time in zip(sizes, times, strict=True)]


def _limit(of: Mapping[str, Any]) -> list[Line]:
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in of["parts"].items())
    got = f"{of['share of the bound']:.0%}: {of['seconds']:.1f} s, bound {of['bound']:.1f} s ({parts})"
    return [("share of the machine's limit, training step", "≥ 60 %", got, of["share of the bound"] >= 0.6)]


def _default(of: Mapping[str, Any]) -> list[Line]:
    many = next(name for name in reversed(list(of)) if name.endswith(" threads") and not name.startswith("gain"))
    epoch, scored = (of[many][name] for name in ("epoch of 1,000 observations, s", "an observation scored, ms"))
    gain = of["gain by threads"]
    gains = (
        f"training {gain['epoch of 1,000 observations, s']:.2f}x, scoring {gain['an observation scored, ms']:.2f}x; "
        f"two processes that share nothing: training {of['gain by processes']:.2f}x"
    )
    return [
        (f"default, K = 38, L = 600, {many}: epoch of 1,000 observations", "< 30 s", f"{epoch:.1f} s", epoch < 30),
        ("an observation scored", "< 20 ms", f"{scored:.1f} ms", scored < 20),
        (
            "`tsadc detect`, 30,000 rows x 38, start included",
            "< 5 s",
            f"{of['detect 30,000 x 38, s']:.1f} s",
            of["detect 30,000 x 38, s"] < 5,
        ),
        ("two threads over one", "≥ 1.6x", gains, min(gain.values()) >= 1.6),
    ]


def _start(of: Mapping[str, Any]) -> list[Line]:
    limits = {"tsadc --help": 0.5, "import tsadc": 0.3, "tsadc detect": 2, "tsadc detect, network": 2}
    names = {
        "tsadc detect": "`tsadc detect`, 1,200 rows x 38, the ensemble",
        "tsadc detect, network": "the same with the network of the paper, which needs torch",
    }
    limited = [(names.get(name, f"`{name}`"), most, of[name]) for name, most in limits.items() if name in of]
    return [(what, f"< {most} s", f"{seconds:.2f} s", seconds < most) for what, most, seconds in limited]


LINES = {
    "kernel": _kernel,
    "training": _training,
    "memory": _memory,
    "scoring": _scoring,
    "agreement": _agreement,
    "growth": _growth,
    "default": _default,
    "limit": _limit,
    "start": _start,
}


def plot(of: Mapping[str, Any]) -> str:
    """Draw the seconds of a training step over time steps and over variables, with the line of linear growth."""
    panels = [
        _panel(of["seconds by length"], "time steps L", 60),
        _panel(of["seconds by variables"], "variables K", 440),
    ]
    style = (
        "text{font:12px system-ui,sans-serif;fill:#334}.grid{stroke:#ccd;stroke-width:1}"
        ".line{stroke:#99a;stroke-dasharray:4 4;fill:none}.mark{fill:#2563eb}"
        "@media(prefers-color-scheme:dark){text{fill:#cbd5e1}.grid{stroke:#475569}.mark{fill:#60a5fa}}"
    )
    title = "Seconds of a training step at the published widths grow in a line with time steps and with variables"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 300" role="img" aria-label="{title}">'
    return "\n".join([head, f"<style>{style}</style>", *panels, "</svg>", ""])


def _panel(seconds: Mapping[str, float], label: str, left: int) -> str:
    sizes, times = [int(size) for size in seconds], list(seconds.values())
    width, height, base = 300, 210, 240
    top = _round_up(max(times))

    def at(size: float, time: float) -> tuple[float, float]:
        return round(left + width * size / max(sizes), 1), round(base - height * time / top, 1)

    shapes = [f'<text x="{left}" y="20">seconds of a step</text>']
    for share in (0, 0.5, 1):
        y = at(0, share * top)[1]
        shapes.append(f'<line class="grid" x1="{left}" y1="{y}" x2="{left + width}" y2="{y}"/>')
        shapes.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{share * top:g}</text>')
    (x1, y1), (x2, y2) = at(sizes[0], times[0]), at(sizes[-1], times[-1])
    shapes.append(f'<line class="line" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    for size, time in zip(sizes, times, strict=True):
        x, y = at(size, time)
        shapes.append(f'<circle class="mark" cx="{x}" cy="{y}" r="4"><title>{size:,}: {time:.1f} s</title></circle>')
    for size in (sizes[0], sizes[-2], sizes[-1]):
        shapes.append(f'<text x="{at(size, 0)[0]}" y="{base + 18}" text-anchor="middle">{size:,}</text>')
    shapes.append(f'<text x="{left + width / 2}" y="{base + 40}" text-anchor="middle">{label}</text>')
    return "\n".join(shapes)


def _round_up(value: float) -> float:
    unit = 10 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def main() -> None:
    measured = records()
    write_file(PAGE, page(measured).encode())
    if "growth" in measured:
        write_file(PLOT, plot(measured["growth"]).encode())


if __name__ == "__main__":
    main()
