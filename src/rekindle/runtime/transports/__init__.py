"""Transports: each moves bytes between an engine and one peer."""
