"""Results -> one self-contained HTML page."""

from tsadc.show.document import write

__all__ = ["write"]
