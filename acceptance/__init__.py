"""What NeuralStream promises, line by line, each shown by a run: `make acceptance`."""
