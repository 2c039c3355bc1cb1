"""Decisions, and nothing else: an event in, a step out. No I/O, clock, thread or randomness."""
