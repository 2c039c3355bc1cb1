"""Completion scripts for shells, and the quoting rules that they need."""
