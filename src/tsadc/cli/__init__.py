"""The command line: files in, files out, one sentence for each mistake."""

from tsadc.cli.app import main

__all__ = ["main"]
