"""Importers: read the sessions in files of other tools. See docs/importers.md."""
