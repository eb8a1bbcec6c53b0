"""`python -m skerry` is the command `skerry`."""

import sys

from skerry.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
