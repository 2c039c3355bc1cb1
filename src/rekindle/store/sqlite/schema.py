"""The database schema, as a list of migrations. A released migration never changes.

Each migration creates or changes a table or an index. So a store whose version number is higher
than its tables allow has a damaged number; a newer Rekindle did not write it.

session   a conversation. `key` replaces the client's id where space matters, and is never reused.
          `program` is the base name of the command. `revision` counts changes that may not move
          `updated_us`, such as titles and imports; from bit REVISION_BITS on, it counts how
          often entries were removed. `origin` is the imported file, as JSON. `saved_turns` is
          the number of turns that the agent is known to have saved. `agent_archived` is 1 if
          the agent is known to have archived the session itself.
agent_trait  a property of a release of an agent that a restore has shown.
forgotten  ids by which the agent knew a session that was removed because it was never used, and
          the time of its last entry.
former    ids by which the agent knew a session earlier.
lease     the process that has the exclusive use of a session. `token` names the file that it locks
          as long as it lives. `is_over` marks a released lease. `epoch` grows when the lease passes
          to another process. `agent_group` is the process group of its agent.
epoch     the leases that have passed to another process: `seq` is the last seq of the session when
          the epoch began. A rewind lowers it.
pending   how many changes of a pending file were applied (see `pending`); `at_us` is the time of
          the last one.
stretch   consecutive entries that differ only in their line: `lines` of them. `place` combines
          the session's key and the seq of the first entry (see `place`), so that the entries of
          a session are adjacent, and appending touches one page and no index. `codec` is the
          encoding of `data`; 0: lines joined by newlines.
"""

from typing import Any

import apsw

# Any: the types that apsw comes with need Python 3.12.
Database = Any

Tables = frozenset[tuple[str, str, str]]
"""Tables and indexes, each as (type, name, SQL)."""

APPLICATION_ID = 0x52656B69
"""Identifies our databases in the file header: "Reki"."""

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
    # Sessions that were recorded before have only their prompts counted.
    """
    alter table session add column messages integer not null default 0;
    update session set messages = turns;
    create table former (agent_session_id text primary key, session integer not null) strict;
    alter table lease add column is_over integer not null default 0;
    create index session_by_deletion on session (updated_us, id) where deleted_us is not null;
    """,
    # Finds where the last turn of a session starts and ends, however long it is.
    """
    create index stretch_by_turn on stretch (kind) where kind = 'prompt' or kind = 'answer';
    """,
    # Shows the search index that a session has changed although its time has not.
    """
    alter table session add column revision integer not null default 0;
    create index former_by_session on former (session);
    """,
    # Finds live leases and sessions to purge, however many sessions there are.
    """
    create index lease_by_token on lease (token) where not is_over;
    create index session_by_purge on session (deleted_us, id)
    where deleted_us is not null and (cwd is not null or turns + messages > 0);
    """,
    # Pending changes are applied once.
    """
    create table pending (
        token text primary key, taken integer not null, at_us integer not null
    ) strict;
    """,
    # Finds imported sessions without reading every row.
    """
    alter table session add column origin text;
    create index session_by_origin on session (id) where origin is not null;
    """,
    # Shows which turns an agent may have lost, and how its `session/load` behaves. Finds sessions
    # that have a turn, however many have none. Earlier releases recorded titles that agents had
    # made from a handover, and kept the process id of a dead holder whose file they removed.
    # Another process may have that id now. A live holder is recognised by its file.
    """
    alter table session add column saved_turns integer not null default 0;
    create table agent_trait (
        release text not null, trait text not null, primary key (release, trait)
    ) strict;
    create index session_by_prompt on session (updated_us, id) where turns > 0;
    update lease set pid = 0;
    update session set agent_title = null, revision = revision + 1
    where agent_title like '%this conversation was continued in a%'
       or agent_title like '%the last turn of this conversation%';
    update session set prompt_title = null, revision = revision + 1
    where prompt_title like 'this conversation was continued in a new process, and%'
       or prompt_title like 'the last turn of this conversation was cut off before it ended, and%';
    """,
    # Removes sessions that were never used, and keeps an agent's own list from showing them.
    """
    create table forgotten (agent_session_id text primary key, at_us integer not null) strict;
    create index session_by_creation on session (created_us, id) where turns = 0;
    """,
    # Shows whether the agent itself has archived a session. Finds the listed sessions however many
    # are archived, the archived ones however few there are, placeholders, and the sub-agents of
    # a session.
    """
    alter table session add column agent_archived integer not null default 0;
    drop index session_by_prompt;
    create index session_by_prompt on session (updated_us, id)
    where turns > 0 and archived_us is null and deleted_us is null and cwd is not null;
    create index session_by_cwd_and_prompt on session (cwd, updated_us, id)
    where turns > 0 and archived_us is null and deleted_us is null and cwd is not null;
    create index session_by_archive on session (updated_us, id)
    where archived_us is not null and deleted_us is null and cwd is not null;
    create index session_by_cwd_and_archive on session (cwd, updated_us, id)
    where archived_us is not null and deleted_us is null and cwd is not null;
    create index session_by_mark on session (updated_us, id)
    where iif(cwd is null, archived_us is not null or user_title is not null, 0);
    create index session_by_parent on session (parent_id)
    where parent_id is not null and cwd is null;
    """,
    # Fences the writes of a process that has lost a lease, and finds where its entries diverge.
    # A running process of an earlier release knows neither: it acquires leases with the epoch 1.
    """
    alter table lease add column epoch integer not null default 1;
    alter table lease add column socket text not null default '';
    alter table lease add column version text not null default '';
    alter table lease add column agent_group integer not null default 0;
    create table epoch (
        session integer not null, epoch integer not null, seq integer not null,
        primary key (session, epoch)
    ) strict;
    """,
)


BREAKING: frozenset[int] = frozenset()
"""The schema versions that running processes of earlier releases cannot use.

All others only add to the tables. A store is upgraded to one of these when no such process runs.
"""

_SEQ_BITS = 32
REVISION_BITS = 20

WITHIN = f"place between key << {_SEQ_BITS} and (key + 1 << {_SEQ_BITS}) - 1"
"""In SQL: a row of `stretch` belongs to the session with that `key`."""


def place(key: int, seq: int) -> int:
    """Return the place of an entry in `stretch`."""
    return key << _SEQ_BITS | seq


def places(key: int) -> tuple[int, int]:
    """Return the first and the last possible place of a session's entries."""
    return place(key, 0), place(key + 1, 0) - 1


def key_at(place: int) -> int:
    """Return the key of the session at a place."""
    return place >> _SEQ_BITS


def seq_at(place: int) -> int:
    """Return the seq of the entry at a place."""
    return place & ((1 << _SEQ_BITS) - 1)


_TABLES = "select type, name, sql from sqlite_schema where name not like 'sqlite_%'"


def tables_of(schema: int) -> Tables:
    """Return the tables and indexes of a schema version."""
    fresh: Database = apsw.Connection(":memory:")
    for migration in MIGRATIONS[:schema]:
        fresh.execute(migration)
    return tables_in(fresh)


def tables_in(db: Database) -> Tables:
    """Return the tables and indexes of a database."""
    return frozenset(db.execute(_TABLES))


def schema_of(tables: Tables) -> int | None:
    """Return the schema version that has exactly these tables, if any."""
    known = range(len(MIGRATIONS), 0, -1) if tables else ()
    return next((schema for schema in known if tables_of(schema) == tables), None)


def schema_version(db: Database) -> int:
    """Return how many migrations a database has had."""
    return int(db.pragma("user_version"))


def needs_breaking_migration(db: Database) -> bool:
    """Return whether running processes of earlier releases cannot use the migrated database."""
    return any(schema_version(db) < schema <= len(MIGRATIONS) for schema in BREAKING)


def migrate(db: Database) -> None:
    """Apply the missing migrations. Call it inside a transaction."""
    for migration in MIGRATIONS[schema_version(db) :]:
        db.execute(migration)
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("user_version", len(MIGRATIONS))
