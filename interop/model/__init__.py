"""A fake model on loopback, with the HTTP APIs of several vendors. It knows nothing of ACP."""
