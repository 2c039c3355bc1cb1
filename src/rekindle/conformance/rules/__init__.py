"""The rules: pure functions that examine lines or values, and yield the faults in them."""
