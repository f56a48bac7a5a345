"""Speed, memory and disk, side by side with what a user would pick instead: `python -m benchmarks`."""
