"""Rekindle gives every coding agent that speaks ACP a memory that lasts."""

__version__ = "0.1.0"
