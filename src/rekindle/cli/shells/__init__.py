"""Completion scripts for shells, and the quoting rules they need."""
