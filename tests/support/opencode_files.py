"""Generate databases and files of OpenCode, with every type of record and every trap."""

import json
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

CWD = "/home/user/project"
BEGIN = 1_760_000_000_000
SESSION = "ses_0001"

Json = dict[str, Any]

_SCHEMA = """
    create table session (
        id text primary key, project_id text not null, workspace_id text, parent_id text,
        slug text not null, directory text not null, path text, title text not null,
        version text not null, share_url text, summary_diffs text, metadata text,
        cost real default 0 not null, tokens_input integer default 0 not null,
        tokens_output integer default 0 not null, revert text, time_created integer not null,
        time_updated integer not null, time_compacting integer, time_archived integer
    );
    create table message (
        id text primary key, session_id text not null, time_created integer not null,
        time_updated integer not null, data text not null
    );
    create table part (
        id text primary key, message_id text not null, session_id text not null,
        time_created integer not null, time_updated integer not null, data text not null
    );
    create table todo (
        session_id text not null, content text not null, status text not null,
        priority text not null, position integer not null, time_created integer not null,
        time_updated integer not null, primary key (session_id, position)
    );
    create table session_message (
        id text primary key, session_id text not null, type text not null, seq integer not null,
        time_created integer not null, time_updated integer not null, data text not null
    );
    create index message_session_time_created_id_idx on message (session_id, time_created, id);
    create index part_message_id_id_idx on part (message_id, id);
    create index part_session_idx on part (session_id);
    create unique index session_message_session_seq_idx on session_message (session_id, seq);
"""
_PNG = "iVBORw0KGgo="


class Message(Struct):
    """A message, with its parts by id."""

    id: str
    at: int
    data: Json
    parts: dict[str, Any]


class OpenCode:
    """One session, message by message."""

    def __init__(self, session: str = SESSION, **fields: object) -> None:
        self.id = session
        self.number = 0
        self.messages: list[Message] = []
        self.events: list[tuple[str, str, int, Json]] = []
        self.todos: list[Json] = []
        self.fields: Json = {
            "parentID": None, "directory": CWD, "title": "New session - 2025-10-09T08:53:20.000Z",
            "version": "1.18.33", **fields,
        }  # fmt: skip

    def tick(self) -> int:
        self.number += 1
        return BEGIN + self.number * 1000

    def _name(self, kind: str) -> str:
        return f"{kind}_{self.id.removeprefix('ses_')}{self.number:04}"

    # -- messages -----------------------------------------------------------------------

    def user(self, *parts: Json, **fields: object) -> str:
        """Add a message of the user; return its id."""
        at = self.tick()
        about = {
            "role": "user",
            "time": {"created": at},
            "agent": "build",
            "summary": {"diffs": []},
        }
        return self._put(at, {**about, **fields}, parts)

    def agent(self, *parts: Json, finish: str | None = "stop", **fields: object) -> str:
        """Add a completed message of the agent; return its id."""
        at = self.tick()
        ended = self.number + 1 + len(parts)
        data: Json = {
            "role": "assistant", "time": {"created": at, "completed": BEGIN + ended * 1000},
            "mode": "build", "path": {"cwd": CWD, "root": CWD}, "finish": finish, **fields,
        }  # fmt: skip
        message_id = self._put(at, data, parts)
        self.tick()
        return message_id

    def _put(self, at: int, data: Json, parts: tuple[Json, ...]) -> str:
        message = Message(self._name("msg"), at, data, {})
        for part in parts:
            began = self.tick()
            if "time" in part:
                part["time"] = {"start": began, "end": began + 500}
            if isinstance(part.get("state"), dict) and "time" in part["state"]:
                part["state"]["time"] = {"start": began, "end": began + 500}
            message.parts[self._name("prt")] = part
        self.messages.append(message)
        return message.id

    def turn(self, number: int) -> None:
        self.user(said(f"Question {number}"))
        self.agent(STEP, said(f"Answer {number}"), FINISH)

    def event(self, kind: str, **data: object) -> str:
        """Add a message in the format of the newest version."""
        at = self.tick()
        message_id = self._name("msg")
        self.events.append((message_id, kind, at, {"time": {"created": at}, **data}))
        return message_id

    # -- files and databases ------------------------------------------------------------

    def to_database(self, path: Path) -> Path:
        """Write the session to a database, which is created if necessary."""
        db = open_database(path)
        self.into(db)
        db.close()
        return path

    def into(self, db: apsw.Connection) -> None:
        """Write the current session to an open database."""
        fields = self.fields
        last = BEGIN + self.number * 1000
        revert = json.dumps(fields["revert"]) if "revert" in fields else None
        row = (self.id, fields["parentID"], fields["directory"], fields["title"],
               fields["version"], revert, BEGIN, last, fields.get("archived"))  # fmt: skip
        with db:
            _write(db, "delete from session where id = ?", [(self.id,)])
            _write(
                db,
                "insert into session (id, project_id, slug, parent_id, directory, title, version, "
                "revert, time_created, time_updated, time_archived) "
                "values (?1, 'global', '', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                [row],
            )
            for value in self.messages:
                message = (value.id, self.id, value.at, last, words(value.data))
                _write(db, "insert or replace into message values (?, ?, ?, ?, ?)", [message])
                parts = [
                    (name, value.id, self.id, value.at, last, words(part))
                    for name, part in value.parts.items()
                ]
                _write(db, "insert or replace into part values (?, ?, ?, ?, ?, ?)", parts)
            todos = [
                (self.id, item["content"], item["status"], item["priority"], place, last, last)
                for place, item in enumerate(self.todos)
            ]
            _write(db, "insert or replace into todo values (?, ?, ?, ?, ?, ?, ?)", todos)
            events = [
                (name, self.id, kind, seq, at, last, words(data))
                for seq, (name, kind, at, data) in enumerate(self.events)
            ]
            _write(
                db, "insert or replace into session_message values (?, ?, ?, ?, ?, ?, ?)", events
            )

    def to_tree(self, data: Path, project: str = "abc") -> Path:
        """Write the session as files of the later tree; return the session's own file."""
        storage = data / "storage"
        about = {k: v for k, v in self.fields.items() if k not in {"archived", "parentID"} and v}
        path = _file(storage / "session" / project / f"{self.id}.json", {**about, **self._about()})
        for message in self.messages:
            _file(storage / "message" / self.id / f"{message.id}.json", _named(message))
            for name, part in message.parts.items():
                _file(storage / "part" / message.id / f"{name}.json", part)
        if self.todos:
            _file(storage / "todo" / f"{self.id}.json", self.todos)
        return path

    def to_first_tree(self, data: Path, project: str = "home-user-project") -> Path:
        """Write the session as files of the first tree."""
        base = data / "project" / project / "storage" / "session"
        path = _file(base / "info" / f"{self.id}.json", {**self.fields, **self._about()})
        for message in self.messages:
            _file(base / "message" / self.id / f"{message.id}.json", _named(message))
            for name, part in message.parts.items():
                _file(base / "part" / self.id / message.id / f"{name}.json", part)
        return path

    def _about(self) -> Json:
        time: Json = {"created": BEGIN, "updated": BEGIN + self.number * 1000}
        if "archived" in self.fields:
            time["archived"] = self.fields["archived"]
        return {
            "id": self.id,
            "projectID": "abc",
            "parentID": self.fields["parentID"],
            "time": time,
        }


def open_database(path: Path) -> apsw.Connection:
    """Open a database as OpenCode does; create it if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "off")
    if is_new:
        _write(db, _SCHEMA)
    return db


def _write(db: apsw.Connection, statement: str, rows: list[tuple[Any, ...]] | None = None) -> None:
    if rows is None:
        db.execute(statement)
    else:
        db.executemany(statement, rows)


def words(value: object) -> str:
    """Return a record as JSON. A text is a damaged record, and is returned unchanged."""
    compact = (",", ":")
    is_torn = isinstance(value, str)
    return value if is_torn else json.dumps(value, ensure_ascii=False, separators=compact)


def _named(message: Message) -> object:
    data: Any = message.data
    return data if isinstance(data, str) else {"id": message.id, **data}


def _file(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False),
        encoding="utf-8",
    )
    return path


# -- parts ------------------------------------------------------------------------------------

STEP: Json = {"type": "step-start", "snapshot": "5a"}
FINISH: Json = {"type": "step-finish", "reason": "stop", "cost": 0, "tokens": {"input": 1}}


def said(words: str, **fields: object) -> Json:
    return {"type": "text", "text": words, **fields}


def thought(words: str) -> Json:
    return {"type": "reasoning", "text": words, "time": {}}


def called(
    tool: str, given: object, output: str = "done", *, call: str = "", title: str = "",
    **metadata: object,
) -> Json:  # fmt: skip
    state = {"status": "completed", "input": given, "output": output, "title": title or tool,
             "metadata": metadata, "time": {}}  # fmt: skip
    return {"type": "tool", "tool": tool, "callID": call or f"call_{tool}", "state": state}


def failed(tool: str, given: object, error: str) -> Json:
    state = {"status": "error", "input": given, "error": error, "time": {}}
    return {"type": "tool", "tool": tool, "callID": f"failed_{tool}", "state": state}


def running(tool: str, given: object, status: str = "running", **metadata: object) -> Json:
    state = {"status": status, "input": given, "metadata": metadata}
    return {"type": "tool", "tool": tool, "callID": f"running_{tool}", "state": state}


def shown(url: str, mime: str, filename: str | None = None) -> Json:
    return {"type": "file", "url": url, "mime": mime, "filename": filename}


def patch(*lines: str) -> str:
    return "\n".join(["Index: a.py", "=" * 9, "--- a.py", "+++ a.py", *lines, ""])


def everything() -> OpenCode:
    """Return a session with every type of part, and every trap."""
    session = OpenCode(title="Doing everything")
    a_py = f"{CWD}/a.py"
    session.user(
        said("Look at this \u2028 and \x85 that"),
        said("Called the Read tool", synthetic=True),
        said("not for the model", ignored=True),
        shown(f"data:image/png;base64,{_PNG}", "image/png", "clip.png"),
        shown(f"file://{a_py}", "text/plain", "a.py"),
        shown("data:text/plain;base64,aGVsbG8=", "text/plain", "hello.txt"),
        shown("data:application/pdf;base64,JVBERg==", "application/pdf", "b c.pdf"),
        shown("data:text/plain,plain", "text/plain", "odd.txt"),
        {"type": "agent", "name": "general", "source": {"value": "@general"}},
    )
    session.agent(
        STEP,
        thought("I should read it."),
        said("Reading.", time={}),
        called("read", {"filePath": a_py}, "<file>1: one</file>", title="a.py",
               display={"type": "file", "text": "one"}),
        {**called("read", {"filePath": "/p.png"}, "Image read", call="call_image"),
         "state": {**called("read", {})["state"], "output": "Image read",
                   "attachments": [shown(f"data:image/png;base64,{_PNG}", "image/png")]}},
        called("bash", {"command": "ls", "description": "List"}, "a.py\n", exit=0),
        called("bash", {"command": "pwd", "workdir": "/srv"}, "", call="call_pwd"),
        FINISH,
        finish="tool-calls",
    )  # fmt: skip
    session.agent(
        STEP,
        called("edit", {"filePath": a_py, "oldString": "one", "newString": "1"}, "Edited",
               filediff={"file": a_py, "patch": patch("@@ -1,2 +1,2 @@", "-one", "+1", " two",
                                                      "\\ No newline at end of file")}),
        called("edit", {"filePath": a_py, "oldString": "x", "newString": "y"}, call="call_older",
               filediff={"file": a_py, "before": "x\n", "after": "y\n"}),
        called("edit", {"filePath": a_py, "oldString": "p", "newString": "q"}, call="call_oldest"),
        called("write", {"filePath": f"{CWD}/new.py", "content": "new\n"}, exists=False),
        called("multiedit", {"filePath": a_py}, "", results=[
            {"filediff": {"file": a_py, "before": "1", "after": "2"}},
            {"filediff": {"file": a_py, "before": "2", "after": "3"}},
        ]),
        called("apply_patch", {"patchText": "*** Begin Patch"}, "Success", files=[
            {"filePath": f"{CWD}/b.py", "relativePath": "b.py", "type": "add",
             "patch": patch("@@ -0,0 +1,1 @@", "+b")},
            {"filePath": a_py, "type": "update",
             "patch": patch("@@ -1,1 +1,1 @@", "-3", "+4", "@@ -9,1 +9,1 @@", "-8", "+9")},
        ]),
        called("patch", {"path": a_py}, "", diff=patch("@@ -1,1 +1,1 @@", "-4", "+5")),
        failed("edit", {"filePath": "/none"}, "File not found: /none"),
        {"type": "patch", "hash": "5b", "files": [a_py]},
        called("todowrite", {"todos": [
            {"content": "Read", "status": "completed", "priority": "high"},
            {"content": "Write", "status": "in_progress", "priority": "low"},
            {"content": "Sleep", "status": "cancelled", "priority": "low"},
        ]}, "[]"),
        failed("todowrite", {"todos": []}, "no"),
        called("task", {"description": "Help", "prompt": "Help me"}, "<task>ok</task>",
               title="Help", sessionId="ses_0002"),
        called("grep", {"pattern": "x", "path": CWD}, "No files found"),
        called("webfetch", {"url": "https://example.com"}, "<html>"),
        called("memory_search", {"q": 1}, "nothing"),
        {"type": "snapshot", "snapshot": "5c"},
        {"type": "retry", "attempt": 1, "error": {"name": "APIError", "data": {"message": "503"}}},
        said("", time={}),
        said("Done.", time={}),
        shown(f"data:image/png;base64,{_PNG}", "image/png"),
        FINISH,
    )  # fmt: skip
    # Typed while the agent was working, and delivered within the turn.
    session.user(said("Run the tests"))
    working = session.agent(called("bash", {"command": "make test"}, "ok"), finish="tool-calls")
    session.messages[-1].data["time"]["completed"] = BEGIN + (session.number + 5) * 1000
    session.user(said("And quickly!"))
    session.agent(said("As you like."), finish="length", parentID=working)
    # Compacted automatically; the tool has sent the last prompt again.
    session.user(said("Too much"))
    session.user({"type": "compaction", "auto": True, "overflow": True})
    session.agent(said("We did this and that."), summary=True, mode="compaction")
    session.user(said("Too much"))
    session.user(said("Continue if you have next steps", synthetic=True))
    session.agent(said("Less now."))
    # Compacted by the user, and by an older version.
    session.user({"type": "compaction", "auto": False})
    session.agent(thought("hm"), said("All until here."), summary=True)
    session.agent(said("And once more."), summary=True)
    session.user({"type": "subtask", "prompt": "Review it", "description": "Review",
                  "agent": "general", "command": "review"})  # fmt: skip
    session.agent(
        called("task", {"description": "Review"}, "fine", call="call_review"), finish="stop"
    )
    session.user(said("The following tool was executed by the user", synthetic=True))
    session.agent(called("bash", {"command": "date"}, "today", call="call_date"), finish=None)
    session.user(said("Fail"))
    session.agent(finish=None, error={"name": "APIError", "data": {"message": "Overloaded"}})
    session.user(said("Stop"))
    session.agent(
        said("I sh"), running("bash", {"command": "sleep 9"}, output="zzz"), finish=None,
        error={"name": "MessageAbortedError", "data": {"message": "Aborted"}},
    )  # fmt: skip
    session.user(said("Refuse"))
    session.agent(finish="content-filter")
    session.user(said("Once more"))
    session.agent(running("write", {}, "pending"), said("cut off"), finish=None)
    session.messages[-1].data["time"].pop("completed")
    session.todos = [{"content": "Rest", "status": "pending", "priority": "medium"}]
    return session


def newest() -> OpenCode:
    """Return a session in the format of the newest version, with every type of message."""
    session = OpenCode(title="Of today")
    session.event("agent-switched", agent="build")
    session.event("model-switched", model={"id": "m"})
    session.event("system", text="You are helpful")
    session.event(
        "user", text="Look at it", agents=[],
        files=[{"uri": f"file://{CWD}/a.py", "mime": "text/plain", "name": "a.py"}],
    )  # fmt: skip
    session.event("synthetic", text="The user was not asked", sessionID=session.id)
    time = {"created": BEGIN, "ran": BEGIN + 4000, "completed": BEGIN + 5000}
    session.event(
        "assistant", agent="build", finish="tool-calls",
        content=[
            {"type": "reasoning", "id": "r1", "text": "Hm."},
            {"type": "text", "id": "t1", "text": "Looking."},
            {"type": "tool", "id": "c1", "name": "read", "time": time, "state": {
                "status": "completed", "input": {"filePath": f"{CWD}/a.py"}, "structured": {},
                "content": [{"type": "text", "text": "one"},
                            {"type": "file", "uri": f"data:image/png;base64,{_PNG}",
                             "mime": "image/png"}]}},
            {"type": "tool", "id": "c2", "name": "edit", "time": time, "state": {
                "status": "completed", "input": {}, "content": [{"type": "text", "text": "ok"}],
                "structured": {"files": [{"file": "a.py",
                                          "patch": patch("@@ -1 +1 @@", "-one", "+1")}]}}},
            {"type": "tool", "id": "c3", "name": "bash", "time": time, "state": {
                "status": "error", "input": {"command": "rm"}, "content": [], "structured": {},
                "error": {"type": "unknown", "message": "not allowed"}}},
            {"type": "tool", "id": "c4", "name": "bash", "time": {"created": BEGIN}, "state": {
                "status": "pending", "input": '{"comm'}},
        ],
        time={"created": BEGIN + 3000, "completed": BEGIN + 6000},
    )  # fmt: skip
    session.event("compaction", reason="auto", summary="It was looked at.", recent="")
    session.event("assistant", agent="build", finish="stop", content=[
        {"type": "text", "id": "t2", "text": "Seen."}],
        time={"created": BEGIN + 7000, "completed": BEGIN + 8000})  # fmt: skip
    session.event("shell", callID="s1", command="date", output="today\n",
                  time={"created": BEGIN + 9000, "completed": BEGIN + 9500})  # fmt: skip
    session.event("user", text="And now?")
    session.event("assistant", agent="build", content=[],
                  error={"type": "unknown", "message": "no"},
                  time={"created": BEGIN + 11000})  # fmt: skip
    session.event("mystery", text="?")
    return session


def first_version() -> OpenCode:
    """Return a session in the format of the first version: messages contain their parts."""
    session = OpenCode(title="Of old", directory=None)
    session.user(role="user")
    about = {"time": {"created": BEGIN + 1000}, "sessionID": session.id, "tool": {}}
    session.messages[-1].data = {"role": "user", "metadata": about, "parts": [said("Read it")]}
    session.tick()
    made = {"state": "result", "toolCallId": "c1", "toolName": "read",
            "args": {"filePath": "/a.py"}, "result": "one"}  # fmt: skip
    session.agent()
    session.messages[-1].data = {
        "role": "assistant",
        "metadata": {
            "time": {"created": BEGIN + 2000, "completed": BEGIN + 9000},
            "assistant": {"path": {"cwd": CWD, "root": CWD}, "system": ["?"], "modelID": "m"},
        },
        "parts": [
            {"type": "step-start"},
            {"type": "tool-invocation", "toolInvocation": made},
            {"type": "tool-invocation",
             "toolInvocation": {**made, "state": "call", "toolCallId": "c2", "result": None}},
            {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{_PNG}"},
            {"type": "source-url", "url": "https://example.com"},
            said("It says one."),
        ],
    }  # fmt: skip
    return session


def damaged() -> OpenCode:
    """Return a session with all kinds of damage."""
    session = OpenCode(title=" \n")
    session.turn(1)
    session.user(said("Half a character: \N{GRINNING FACE}"))
    session.messages[-1].parts["prt_z1"] = '{"type":"text","text":"cut o'
    session.messages[-1].parts["prt_z2"] = "[1]"
    session.messages[-1].parts["prt_z3"] = r'{"type":"text","text":"half \ud83d"}'
    session.messages[-1].parts["prt_z4"] = {"type": "text", "text": 7, "synthetic": "no"}
    session.messages[-1].parts["prt_z5"] = {"type": 5}
    session.messages[-1].parts["prt_z6"] = {"type": "hologram"}
    session.agent(
        {"type": "tool"}, {"type": "tool", "tool": 5, "callID": [], "state": "done"},
        called("edit", "no object"), called("edit", {"filePath": 3}, filediff=[1]),
        called("todowrite", {"todos": [1, {"content": 5}]}), {"type": "hologram"},
        finish=7, error=None,
    )  # fmt: skip
    session.agent(finish=None, error="odd", time={"created": "then"})
    session.messages.append(Message("msg_z1", BEGIN + 10**6, {}, {}))
    session.messages.append(
        Message("msg_z2", BEGIN + 10**6, {"role": "king"}, {"prt_k": said("We")})
    )
    torn: Any = '{"role":"user"'
    session.messages.append(Message("msg_z3", BEGIN + 10**6, torn, {"prt_t": said("lost")}))
    return session
