"""Breaking Rekindle on purpose, many times, and looking whether anything was lost.

`episodes` has the kinds of episodes, each some faults on a store of its own, at moments drawn from
a seed; `checks` compares what the clients received with what is in the store.
"""
