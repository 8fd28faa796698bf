"""``python -m oslo_sklearn``."""

import sys

from .cli import main

sys.exit(main())
