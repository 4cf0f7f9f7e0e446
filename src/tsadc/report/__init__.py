"""Results -> one self-contained HTML page."""

from tsadc.report.document import write

__all__ = ["write"]
