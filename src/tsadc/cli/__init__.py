"""The command line: files in, files out, one sentence for each mistake.

`main` is the entry point of the command `tsadc`; `app.py` defines the commands and their options."""

from tsadc.cli.app import main

__all__ = ["main"]
