"""Show results: the report of one detection, the tables and pages of a benchmark, and the files with the numbers."""

from tsadc.show.report import write

__all__ = ["write"]
