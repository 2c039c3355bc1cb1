"""A fake model, on loopback, in the dialects that agents speak. It knows nothing of ACP."""
