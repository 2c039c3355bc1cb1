"""The schema, as the list of steps that led to it. A step, once released, never changes.

Each step makes or changes a table or an index. So a store that says to be newer than its tables
are is none: the number is damaged, and not for a newer Rekindle to know.

session   a conversation. `key` stands for the client's id wherever space matters, and is
          never given again.
          `program` is the base name of its command. `revision` counts titles, and what came
          from elsewhere: changes that may leave `updated_us` as it is; from bit REVISION_BITS on,
          how often entries were taken away. `origin` tells in which file of another tool's it
          is, as JSON.
former    by which ids the agent has known a session before.
lease     which process drives a session; `token` names the file that it holds while it lives.
pending   how many changes of a file of what waits were taken (see `pending.py`); `at_us` is the
          time of the last one.
stretch   entries that follow each other and are alike but for their line: `lines` of them.
          `place` is the session's key and the first one's seq in one number (see `place`), so
          that a session lies together and appending to it touches one page and no index.
          `codec` tells how `data` holds the lines; 0: joined with newlines.
"""

from typing import Any

import apsw

# Any: the types that apsw comes with need Python 3.12.
Database = Any

Tables = frozenset[tuple[str, str, str]]
"""Each with its kind, its name, and how it was made."""

APPLICATION_ID = 0x52656B69
"""Says in the file's header whose database it is: "Reki"."""

MIGRATIONS = (
    """
    create table session (
        key integer primary key autoincrement,
        id text not null unique,
        agent_session_id text not null,
        agent_name text,
        agent_version text,
        command text not null default '[]',
        program text,
        cwd text,
        directories text not null default '[]',
        user_title text,
        agent_title text,
        prompt_title text,
        created_us integer not null,
        updated_us integer not null,
        parent_id text,
        archived_us integer,
        deleted_us integer,
        turns integer not null default 0
    ) strict;
    create index session_by_time on session (updated_us, id);
    create index session_by_cwd on session (cwd, updated_us, id);
    create index session_by_agent_session on session (agent_session_id);
    create table lease (
        session integer primary key,
        token text not null,
        pid integer not null,
        host text not null
    ) strict;
    create table stretch (
        place integer primary key,
        lines integer not null,
        side text not null,
        kind text not null,
        at_us integer not null,
        protocol integer not null,
        codec integer not null default 0,
        data blob not null
    ) strict;
    """,
    # Of what was recorded before, only the prompts are counted.
    """
    alter table session add column messages integer not null default 0;
    update session set messages = turns;
    create table former (agent_session_id text primary key, session integer not null) strict;
    alter table lease add column is_over integer not null default 0;
    create index session_by_deletion on session (updated_us, id) where deleted_us is not null;
    """,
    # Where a session's last turn begins and ends, however long it is.
    """
    create index stretch_by_turn on stretch (kind) where kind = 'prompt' or kind = 'answer';
    """,
    # An index has to be told of what a session's time does not tell.
    """
    alter table session add column revision integer not null default 0;
    create index former_by_session on former (session);
    """,
    # Who drives something, and what is to be purged, however many sessions there are.
    """
    create index lease_by_token on lease (token) where not is_over;
    create index session_by_purge on session (deleted_us, id)
    where deleted_us is not null and (cwd is not null or turns + messages > 0);
    """,
    # What was taken of what waits is not to be taken again.
    """
    create table pending (
        token text primary key, taken integer not null, at_us integer not null
    ) strict;
    """,
    # What was imported before is found without reading every session's row.
    """
    alter table session add column origin text;
    create index session_by_origin on session (id) where origin is not null;
    """,
)


_SEQ_BITS = 32
REVISION_BITS = 20

WITHIN = f"place between key << {_SEQ_BITS} and (key + 1 << {_SEQ_BITS}) - 1"
"""In SQL: what lies in `stretch` is of the session with that `key`."""


def place(key: int, seq: int) -> int:
    """Return where an entry of a session lies in `stretch`."""
    return key << _SEQ_BITS | seq


def places(key: int) -> tuple[int, int]:
    """Return the first and the last place that something of a session can have."""
    return place(key, 0), place(key + 1, 0) - 1


def key_at(place: int) -> int:
    """Return the key of the session whose entry lies there."""
    return place >> _SEQ_BITS


def seq_at(place: int) -> int:
    """Return the seq of the entry that lies there."""
    return place & ((1 << _SEQ_BITS) - 1)


_TABLES = "select type, name, sql from sqlite_schema where name not like 'sqlite_%'"


def tables_of(schema: int) -> Tables:
    """Return the tables and indexes that a store of that schema has."""
    fresh: Database = apsw.Connection(":memory:")
    for step in MIGRATIONS[:schema]:
        fresh.execute(step)
    return tables_in(fresh)


def tables_in(db: Database) -> Tables:
    """Return the tables and indexes that there are."""
    return frozenset(db.execute(_TABLES))


def schema_of(tables: Tables) -> int | None:
    """Return the schema that has exactly these tables; None if it is none that is known."""
    known = range(len(MIGRATIONS), 0, -1) if tables else ()
    return next((schema for schema in known if tables_of(schema) == tables), None)


def schema_version(db: Database) -> int:
    """Return how many steps this store has taken."""
    return int(db.pragma("user_version"))


def migrate(db: Database) -> None:
    """Take the steps that are missing, all or none. Call inside a transaction."""
    for step in MIGRATIONS[schema_version(db) :]:
        db.execute(step)
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("user_version", len(MIGRATIONS))
