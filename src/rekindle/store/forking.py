"""Copying the beginning of a session to another, and leaving only that."""

from rekindle.store import statements
from rekindle.store.migrations import Database, place, places
from rekindle.store.rows import entries_in


def copy(db: Database, parent: int, child: int, until_seq: int) -> None:
    """Copy what lies up to an entry."""
    shift = place(child, 0) - place(parent, 0)
    db.execute(statements.COPY, (shift, place(parent, 0), place(parent, until_seq)))
    cut(db, child, until_seq)


def cut(db: Database, key: int, until_seq: int) -> None:
    """Take away what lies beyond an entry."""
    beyond = (place(key, until_seq + 1), places(key)[1])
    db.execute("delete from stretch where place between ? and ?", beyond)
    for row in db.execute(statements.LAST_ROW, places(key)).fetchall():
        lines = [entry.line for entry in entries_in(row) if entry.seq <= until_seq]
        sql = "update stretch set lines = ?, data = ? where place = ?"
        db.execute(sql, (len(lines), b"\n".join(lines), row[0]))
