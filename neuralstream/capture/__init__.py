"""Capture: the Redis buffer, the triggers, and what is stripped before a turn is kept."""
