"""Making a session that begins as another does, and leaving only the beginning of one."""

from rekindle.model import Forked
from rekindle.store.sqlite import sql
from rekindle.store.sqlite.codec import entries_in
from rekindle.store.sqlite.schema import Database, place, places


def fork(db: Database, forked: Forked, parent: int) -> None:
    """Make a session, and copy what its parent has up to an entry."""
    values = {"id": forked.session_id, "at_us": forked.at_us, "parent": parent}
    db.execute(sql.FORK, values)
    child = db.last_insert_rowid()
    shift = place(child, 0) - place(parent, 0)
    db.execute(sql.COPY, (shift, place(parent, 0), place(parent, forked.until_seq)))
    cut(db, child, forked.until_seq)


def cut(db: Database, key: int, until_seq: int) -> None:
    """Take away what lies beyond an entry."""
    beyond = (place(key, until_seq + 1), places(key)[1])
    db.execute("delete from stretch where place between ? and ?", beyond)
    for row in db.execute(sql.LAST_ROW, places(key)).fetchall():
        lines = [entry.line for entry in entries_in(row) if entry.seq <= until_seq]
        statement = "update stretch set lines = ?, data = ? where place = ?"
        db.execute(statement, (len(lines), b"\n".join(lines), row[0]))
