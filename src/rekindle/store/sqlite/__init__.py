"""The store on disk: one SQLite file, and the files beside it."""
