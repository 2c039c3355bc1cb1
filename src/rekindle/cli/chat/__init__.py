"""Talking to an agent: what `resume`, `new` and `prompt` have in common, and the terminal chat."""
