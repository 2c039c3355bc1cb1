"""Between version 1 and version 2 of the protocol, one small function for each thing.

They take and return plain JSON values. A thing that has the wanted shape already is returned as
it is, so that sessions in which both versions occur need no special care. What is lost on the way
is said where it is lost, and listed in `docs/translation.md`.
"""
