"""The only layer that blocks: processes, pipes, threads, signals, and the store's writer."""
