"""Starts the command line of the relayer."""

import sys

from skerry_relayer.cli import main

sys.exit(main())
