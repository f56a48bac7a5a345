"""`python -m neuralstream` is the `neuralstream` command."""

import sys

from neuralstream.cli import main

sys.exit(main())
