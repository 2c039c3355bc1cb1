"""Choosing a session by typing. What is imported here late needs Textual, which may be missing."""
