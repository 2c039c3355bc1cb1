"""Inject faults into running Rekindle processes, and check that nothing is lost.

`episodes` lists the kinds of episodes: each injects some faults with a store of its own, at moments
that a seed decides. `checks` compares the messages that clients received with the store.
"""
