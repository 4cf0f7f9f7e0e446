"""Results -> one self-contained HTML page."""

from tsadc.report.page import write

__all__ = ["write"]
