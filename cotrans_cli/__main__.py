"""`python -m cotrans_cli` is the same as `cotrans`, also where `torchrun` starts it."""

import os
import sys

# `python -m` looks in the working folder first, where a user's `weights.py` or `pipelines/` would be taken for ours.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120

from cotrans_cli.entry import main  # noqa: E402

main()
