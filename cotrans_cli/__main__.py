"""`python -m cotrans_cli` is the same as `cotrans`."""

from cotrans_cli.main import main

main()
