"""Judges: each looks at lines or values and yields what is wrong with them. They do nothing."""
