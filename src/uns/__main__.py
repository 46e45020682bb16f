"""
``python -m uns``: the command line.
"""

import sys

from uns.entrypoints.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
