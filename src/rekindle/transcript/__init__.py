"""Fold recorded entries into turns, and write those turns out again. Pure: no I/O, no clock."""
