"""Conversations with an agent from the terminal, for `resume`, `new` and `prompt`."""
