"""Translate between version 1 and version 2 of the protocol, with one small function per thing.

The functions take and return plain JSON values. A value that already has the wanted form is
returned unchanged, so sessions in which both versions occur need no special care. Where a
translation loses something, its docstring says so; `docs/reference/translation.md` lists all of it.
"""
