"""``python -m stormlog``."""

import sys

from .entrypoint import main

sys.exit(main())
