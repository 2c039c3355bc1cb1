"""Breaking Rekindle on purpose, many times, and looking whether anything was lost.

`seeds` says what happens when; `episodes` has the kinds of episodes, each a few dozen faults on a
store of its own; `checks` compares what the clients received with what is in the store.
"""
