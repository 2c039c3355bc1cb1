"""Copying the beginning of a session to another."""

from rekindle.model import Forked
from rekindle.store import statements
from rekindle.store.migrations import Database, place, places
from rekindle.store.rows import entries_in


def make(db: Database, forked: Forked, parent: int) -> None:
    """Make a session of what lies up to an entry of its parent."""
    values = {"id": forked.session_id, "at_us": forked.at_us, "parent": parent}
    db.execute(statements.FORK, values)
    child = db.execute("select key from session where id = ?", (forked.session_id,)).get
    shift = place(child, 0) - place(parent, 0)
    db.execute(statements.COPY, (shift, place(parent, 0), place(parent, forked.until_seq)))
    _cut(db, child, forked.until_seq)


def _cut(db: Database, key: int, until_seq: int) -> None:
    """Take from the last row what lies beyond an entry."""
    for row in db.execute(statements.LAST_ROW, places(key)).fetchall():
        lines = [entry.line for entry in entries_in(row) if entry.seq <= until_seq]
        sql = "update stretch set lines = ?, data = ? where place = ?"
        db.execute(sql, (len(lines), b"\n".join(lines), row[0]))
