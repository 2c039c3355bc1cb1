"""Real agents with a fake model behind them, bare and behind Rekindle: `make interop`."""
