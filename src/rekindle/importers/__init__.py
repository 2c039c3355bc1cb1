"""Importers: read the sessions in files of other tools. See docs/how-to/write-an-importer.md."""
