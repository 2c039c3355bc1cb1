"""The session picker. Its modules need Textual, which may be missing; import them late."""
