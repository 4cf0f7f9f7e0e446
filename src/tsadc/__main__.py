"""`python -m tsadc`, for torchrun and for machines where scripts are not on the path."""

from tsadc.cli import main

main()
