"""Put numbers, amounts and durations into words, for results and for everything that shows them."""

from __future__ import annotations

import numpy as np

from tsadc.series import Clock

DASH = "\N{EN DASH}"
MICROSECOND, MILLISECOND, SECOND = 10**3, 10**6, 10**9
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def number(value: float) -> str:
    """Format with three significant digits."""
    if not np.isfinite(value):
        return DASH
    size = abs(value)
    if size != 0 and (size >= 1e6 or size < 1e-3):
        text = f"{value:.2e}"
    elif size >= 99.95:
        text = f"{value:,.0f}"
    else:
        text = np.format_float_positional(value, precision=3, fractional=False, unique=False, trim="k")
        text = text.rstrip(".") if size else "0"
    return text.replace("-", "\N{MINUS SIGN}")


def count(amount: int, singular: str, plural: str) -> str:
    """Format an amount and its noun, such as "1 row" or "2,000 rows"."""
    return f"{amount:,} {singular if amount == 1 else plural}"


def alike(*values: float) -> list[str]:
    """Format numbers of one kind with as many decimals as the smallest difference that matters needs: a tenth of the
    difference between the last two."""
    width, size = abs(values[-1] - values[-2]), max(abs(value) for value in values)
    if not np.isfinite([*values, size]).all() or width == 0 or size >= 1e6 or size < 1e-2:
        return [number(value) for value in values]
    decimals = max(0, -int(np.floor(np.log10(width / 3))))
    return [f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}") for value in values]


def duration(clock: Clock, rows: int, space: str = " ") -> str:
    """Format the duration of `rows` rows in its two largest units, with `space` between a number and its unit."""
    if not clock.dated:
        return count(rows * clock.interval, "row", "rows")
    left, parts = rows * clock.interval, []
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", MILLISECOND)):
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount:,}{space}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or f"{left}{space}ns"
