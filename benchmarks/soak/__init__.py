"""A host that talks to `neuralstream serve` while that is ended and killed: `python -m benchmarks.soak`."""
