"""The SQL of the store on disk. The tables are described in `schema`."""

from rekindle.model import TitleSource
from rekindle.store.base import MAX_PREFIX_MATCHES
from rekindle.store.sqlite.schema import REVISION_BITS, WITHIN

LAST_PLACE = f"""
    (select place + lines - 1 from stretch where {WITHIN} order by place desc limit 1)
"""  # noqa: S608 - constants only
"""The place of the last entry of the session with that `key`."""

SESSION = f"""
    select id, agent_session_id, agent_name, agent_version, command, cwd, directories,
           user_title, agent_title, prompt_title, created_us, updated_us, parent_id,
           archived_us, deleted_us, turns, messages, origin, saved_turns, agent_archived,
           {LAST_PLACE}
    from session
"""  # noqa: S608 - constants only

FIND = f"""
    {SESSION} where id >= :prefix and id < :beyond
    and (deleted_us is null or cwd is not null or turns + messages > 0 or id = :prefix)
    order by id limit {MAX_PREFIX_MATCHES}
"""

CREATE = """
    insert into session (id, agent_session_id, created_us, updated_us)
    values (:id, :id, :at_us, :at_us)
"""

LAST = """
    select place + lines - 1 from stretch where place between ? and ? order by place desc limit 1
"""

TOUCH = """
    update session set updated_us = max(updated_us, ?) where key = ?
"""

APPEND = "insert into stretch values (?, ?, ?, ?, ?, ?, ?, ?)"

APPEND_FENCED = """
    insert into stretch select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
    where not exists (select 1 from lease where session = ?1 >> 32 and (token, epoch) <> (?9, ?10))
"""
"""Inserts nothing if the lease of the session is not the given one."""

OPEN = """
    update session
    set saved_turns = iif(agent_session_id is coalesce(:agent_session_id, agent_session_id),
                          saved_turns, 0),
        agent_archived = iif(agent_session_id is coalesce(:agent_session_id, agent_session_id),
                             agent_archived, 0),
        agent_session_id = coalesce(:agent_session_id, agent_session_id),
        agent_name = coalesce(:agent_name, agent_name),
        agent_version = coalesce(:agent_version, agent_version),
        command = coalesce(:command, command),
        program = coalesce(:program, program),
        cwd = coalesce(:cwd, cwd),
        directories = coalesce(:directories, directories),
        parent_id = coalesce(:parent_id, parent_id),
        deleted_us = null
    where id = :id
"""

REMEMBER_FORMER = """
    insert or ignore into former
    select agent_session_id, key from session
    where id = :id and agent_session_id not in ('', :agent_session_id)
"""

TITLE = {
    TitleSource.USER: """
        update session set user_title = :title, revision = revision + 1 where id = :session_id
    """,
    TitleSource.AGENT: """
        update session set agent_title = :title, revision = revision + 1 where id = :session_id
    """,
    TitleSource.PROMPT: """
        update session set prompt_title = iif(:title is null, null, coalesce(prompt_title, :title))
        where id = :session_id
    """,
}

REVISE = "update session set revision = revision + 1 where id = ?"

REVISE_TRUNCATED = f"""
    update session set revision = ((revision >> {REVISION_BITS}) + 1) << {REVISION_BITS}
    where key = ?
"""  # noqa: S608 - constants only

TRUNCATE_EPOCHS = "update epoch set seq = min(seq, ?) where session = ?"

TITLES = "select prompt_title, agent_title, user_title from session where id = ?"

ROW = "select place, lines, side, kind, at_us, protocol, codec, data from stretch"

ROW_WITH = "select max(place) from stretch where place between ? and ?"
"""The row that contains an entry, or the last one before it."""

READ = f"{ROW} where place between ? and ? order by place limit ?"

FORK = """
    insert into session (id, agent_session_id, agent_name, agent_version, command, program, cwd,
                         user_title, agent_title, prompt_title, created_us, updated_us, parent_id)
    select :id, '', agent_name, agent_version, command, program, cwd,
           user_title, agent_title, prompt_title, :at_us, :at_us, coalesce(:owner, id)
    from session where key = :parent
"""

COPY = """
    insert into stretch
    select place + ?, lines, side, kind, at_us, protocol, codec, data
    from stretch where place between ? and ?
"""

# Only a rewind counts nothing new. It moves no time, so the search index needs the revision.
COUNT = """
    update session set turns = turns + :turns, messages = messages + :messages,
        saved_turns = iif(:turns < 0, 0, saved_turns),
        revision = revision + (max(:turns, :messages) <= 0)
    where id = :session_id
"""

IMPORT = "update session set origin = :origin where id = :session_id"

IMPORTED = "select id, cwd, deleted_us is not null, origin from session where origin is not null"

FIND_BY_AGENT_ID = """
    select id from session where agent_session_id = :id
    union all
    select id from former join session on key = session where former.agent_session_id = :id
    limit 1
"""

AGENT_COMMANDS = """
    select command from session
    where coalesce(nullif(agent_name, ''), program) collate nocase
          in (select value from json_each(:identities))
      and command <> '[]' and deleted_us is null and cwd is not null
    group by command order by max(updated_us) desc
"""

IDS = "select id from session where key in (select value from json_each(?))"

ARCHIVE = """
    update session set archived_us = iif(? is null, null, coalesce(archived_us, ?)) where id = ?
"""

# As in the index `session_by_mark`. With `cwd is null` SQLite would read all unopened sessions.
PLACEHOLDER = "iif(cwd is null, archived_us is not null or user_title is not null, 0)"

ARCHIVE_DIFFERENCES = f"""
    {SESSION}
    where (agent_session_id, agent_archived) in (select key, not value from json_each(:states))
      and deleted_us is null and cwd is not null
      and not exists (select 1 from session later
                      where later.agent_session_id = session.agent_session_id
                        and later.key > session.key)
"""  # noqa: S608 - constants only

_SUBAGENTS = """
    with recursive found (key, id) as (
        select key, id from session
        where parent_id in (select value from json_each(:ids)) and cwd is null
        union
        select session.key, session.id from session join found on session.parent_id = found.id
        where session.cwd is null
    )
    select key from found
"""
"""The keys of the sub-agents of sessions, and of theirs."""

SUBAGENTS = f"""
    {SESSION} where key in ({_SUBAGENTS}) order by created_us, id
"""

DELETE = f"""
    update session set deleted_us = :at_us
    where id = :id or (deleted_us is null and key in ({_SUBAGENTS}))
"""  # noqa: S608 - constants only

DELETION_TIME = "select deleted_us from session where id = ? and deleted_us is not null"

UNDELETE_SUBAGENTS = f"""
    update session set deleted_us = null where deleted_us = :at_us and key in ({_SUBAGENTS})
"""  # noqa: S608 - constants only

SUBAGENT_KEYS = f"select key, id from session where key in ({_SUBAGENTS})"  # noqa: S608 - constants only

DELETED_KEYS = """
    select key, id from session
    where id in (select value from json_each(?)) and deleted_us is not null
"""

DELETED_SUBAGENT_KEYS = f"""
    select key, id from session where key in ({_SUBAGENTS}) and deleted_us is not null
"""  # noqa: S608 - constants only

DELETED = """
    select id from session
    where deleted_us < ? and (cwd is not null or turns + messages > 0)
    order by deleted_us, id limit ?
"""

BLANK = """
    update session
    set agent_name = null, agent_version = null, command = '[]', program = null, cwd = null,
        directories = '[]', user_title = null, agent_title = null, prompt_title = null,
        parent_id = null, archived_us = null, agent_archived = 0, turns = 0, messages = 0,
        origin = null
    where key = ?
"""

UNUSED = """
    turns = 0 and cwd is not null and deleted_us is null and archived_us is null
    and parent_id is null and origin is null and user_title is null
"""
"""The condition of `Session.is_unused`."""

UNUSED_SESSIONS = f"""
    {SESSION} where {UNUSED} and created_us < ? and (created_us, id) > (?, ?)
    and key not in (select value from json_each(?))
    order by created_us, id limit ?
"""  # noqa: S608 - constants only

UNUSED_KEY = f"select key from session where id = ? and {UNUSED}"  # noqa: S608 - constants only

REMEMBER_FORGOTTEN = """
    insert or replace into forgotten
    select agent_session_id, :at_us from session where key = :key and agent_session_id <> ''
    union select agent_session_id, :at_us from former where session = :key
"""

FORGOTTEN_IDS = """
    select agent_session_id, at_us from forgotten
    where agent_session_id in (select value from json_each(?))
"""

KNOWN_IDS = """
    select agent_session_id from session
    where agent_session_id in (select value from json_each(:ids))
    union select id from session where id in (select value from json_each(:ids))
    union select agent_session_id from former
    where agent_session_id in (select value from json_each(:ids))
"""

_IS_RECORDED = f"""
    (cwd is not null or origin is not null or deleted_us is not null
     or exists (select 1 from stretch where {WITHIN}))
"""  # noqa: S608 - constants only

RECORDED_IDS = f"""
    select agent_session_id from session
    where agent_session_id in (select value from json_each(:ids)) and {_IS_RECORDED}
    union select id from session
    where id in (select value from json_each(:ids)) and {_IS_RECORDED}
    union select former.agent_session_id from former join session on key = session
    where former.agent_session_id in (select value from json_each(:ids)) and {_IS_RECORDED}
"""  # noqa: S608 - constants only

LAST_ROW = f"{ROW} where place between ? and ? order by place desc limit 1"

# Jumps from the first entry of one session to that of the next, without reading those between.
ORPHANS = """
    with recursive found (key) as (
        select (select place >> 32 from stretch order by place limit 1)
        union all
        select (select place >> 32 from stretch where place >= (key + 1) << 32
                order by place limit 1)
        from found where key is not null
    )
    select key from found where key is not null and key not in (select key from session)
"""
"""The keys that have entries but no session."""
