"""`python -m maxmargin.cli`."""

from maxmargin.cli import main

main()
