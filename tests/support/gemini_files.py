"""Files as Gemini CLI writes them: every type of record, and every trap."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

CWD = "/home/user/project"
SESSION = "22222222-2222-4222-8222-222222222222"
CONTEXT = "d04923d38bb0f6017037e74183378ef4"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"

Json = dict[str, Any]


class GeminiFile:
    """A session's file, record by record, and what the tool has of it in memory."""

    def __init__(
        self, session: str = SESSION, cwd: str = CWD, minute: int = 0, **more: object
    ) -> None:
        self.session = session
        self.cwd = cwd
        self.minute = minute
        self.lines: list[bytes] = []
        self.messages: dict[str, Json] = {}
        self.number = 60 * minute
        self.about: Json = {}
        self.begin(**more)

    def begin(self, **more: object) -> None:
        """Write how a file begins, and begins again by mistake."""
        self.about = {
            "sessionId": self.session, "projectHash": sha256(self.cwd.encode()).hexdigest(),
            "startTime": self.time(), "lastUpdated": self.time(), "kind": "main", **more,
        }  # fmt: skip
        self.put(self.about)
        words = "<session_context>\nThis is the Gemini CLI. We are setting up the context for our"
        self.replace([self.make("user", [text(f"{words} chat.\n</session_context>")], CONTEXT)])

    def time(self) -> str:
        minutes, hours = self.number // 60 % 60, self.number // 3600
        return f"2025-11-09T{hours % 24:02}:{minutes:02}:{self.number % 60:02}.500Z"

    def put(self, record: object) -> None:
        """Write any record."""
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())

    def make(self, kind: str, content: object, name: str | None = None, **fields: object) -> Json:
        """Return a message that is not written yet."""
        self.number += 1
        number = (int.from_bytes(self.session[:4].encode()) << 96) + self.number
        name = name or str(UUID(int=number, version=4))
        message = {"id": name, "timestamp": self.time(), "type": kind, "content": content}
        return message | {key: it for key, it in fields.items() if it is not None}

    def add(self, kind: str, content: object, name: str | None = None, **fields: object) -> str:
        """Write a message as the tool does; return its id."""
        message = self.make(kind, content, name, **fields)
        self.again(message)
        self.put({"$set": {"lastUpdated": message["timestamp"]}})
        return str(message["id"])

    def again(self, message: Json) -> None:
        """Write a message, perhaps once more."""
        self.messages[message["id"]] = message
        self.put(message)

    def user(self, words: str, *parts: Json, **fields: object) -> str:
        return self.add("user", [text(words), *parts], **fields)

    def agent(self, words: str, *thoughts: tuple[str, str]) -> str:
        told = [
            {"subject": it[0], "description": it[1], "timestamp": self.time()} for it in thoughts
        ]
        tokens = {"input": 100, "output": 10, "cached": 0, "thoughts": 5, "tool": 0, "total": 110}
        return self.add("gemini", words, thoughts=told, tokens=tokens, model="gemini-2.5-flash")

    def call(
        self, name: str, args: object, output: str = "", display: object = None, **fields: object
    ) -> str:  # fmt: skip
        """Write a call that is done, in a message of its own, or in one that has more of them."""
        self.number += 1
        call_id = f"{name}_{self.number}"
        into = str(fields.pop("into", ""))
        key = "error" if fields.get("status") == "error" else "output"
        result = [{"functionResponse": {"id": call_id, "name": name, "response": {key: output}}}]
        call = {
            "id": call_id, "name": name, "args": args, "result": result, "status": "success",
            "timestamp": self.time(), "resultDisplay": display, "description": f"Does {name}",
            "displayName": name.title(), "renderOutputAsMarkdown": True, **fields,
        }  # fmt: skip
        if not into:
            message = self.make(
                "gemini", "", thoughts=[], model="gemini-2.5-flash", toolCalls=[call]
            )
        else:
            message = dict(self.messages[into])
            message["toolCalls"] = [*message.get("toolCalls", []), call]
        self.again(message)
        self.add("user", result)
        return str(message["id"])

    def replace(self, messages: list[Json]) -> None:
        """Write a list that stands for all messages that there were."""
        self.messages = {it["id"]: it for it in messages}
        self.put({"$set": {"messages": messages, "lastUpdated": self.time()}})

    def go_back(self, name: str) -> None:
        """Take a message away, with all that came after it."""
        kept = list(self.messages).index(name) if name in self.messages else 0
        self.messages = dict(list(self.messages.items())[:kept])
        self.put({"$rewindTo": name})

    def turn(self, number: int) -> None:
        """Write a question and its answer."""
        self.user(f"Question {number}")
        self.agent(f"Answer {number}")

    # -- as files -----------------------------------------------------------------------

    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def one_object(self, indent: int | None = 2) -> bytes:
        """Return all of it as older versions wrote it."""
        whole = self.about | {"messages": list(self.messages.values()), "summary": "In short"}
        return json.dumps(whole, indent=indent, ensure_ascii=False).encode()

    def path(self, home: Path, suffix: str = "jsonl") -> Path:
        chats = home / ".gemini" / "tmp" / "project" / "chats"
        return chats / f"session-2025-11-09T00-{self.minute:02}-{self.session[:8]}.{suffix}"

    def write(self, home: Path) -> Path:
        """Write the file where Gemini CLI would."""
        path = self.path(home)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data())
        (path.parents[1] / ".project_root").write_text(self.cwd)
        return path


def text(words: str) -> Json:
    return {"text": words}


def everything() -> GeminiFile:
    """Return a session with every kind of record that is known."""
    it = GeminiFile()
    it.add("info", "Gemini CLI update available!")
    _work(it)
    _go_on(it)
    return it


def _work(it: GeminiFile) -> None:
    it.user(
        "Look at the picture\u2028and fix a.py",
        {"inlineData": {"mimeType": "image/png", "data": PICTURE}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        {"fileData": {"mimeType": "text/plain", "fileUri": "gs://bucket/a"}},
        text("<hook_context>be nice</hook_context>"),
    )
    it.agent("I look at it.", ("Planning", "It is in a.py."), ("", "No subject."))
    calls = it.call("read_file", {"file_path": "a.py"}, "def f():\n", "")
    it.agent("")
    change = {
        "fileDiff": "-a\n+b\n", "fileName": "a.py", "filePath": f"{CWD}/a.py",
        "originalContent": "a\n", "newContent": "b\n", "diffStat": {"model_added_lines": 1},
    }  # fmt: skip
    it.call("replace", {"file_path": f"{CWD}/a.py"}, "Modified", change, into=calls)
    screen = [[{"text": "ok   ", "bold": False}], [{"text": "     ", "bold": False}]]
    it.call("run_shell_command", {"command": "make"}, "Output: ok", screen, into=calls)
    found = {"summary": "Found 1 match", "matches": [{"filePath": "a.py"}]}
    it.call("grep_search", {"pattern": "f"}, "Found 1 match:\nFile: a.py\nL1: f and more", found)
    it.call("write_file", {"file_path": "/new"}, "Made", change | {"originalContent": None})
    it.call("replace", {"file_path": "/b"}, "Older", {"fileDiff": "-x\n+y", "fileName": "b"})
    it.call("web_fetch", {"prompt": "http://a"}, "A page", "A page")
    long = "Reads and returns the content of a file."
    it.call("read_file", {"file_path": "/no"}, "No such file", "No such file", status="error",
            description=long)  # fmt: skip
    it.call("glob", {"pattern": "("}, "No pattern", status="error")
    it.call("glob", {"pattern": "*"}, "", status="cancelled")
    it.call("mcp_tool", {"x": 1}, "", result="Plain words")
    it.call("invoke_agent", {"agent_name": "helper"}, "Helped", {"isSubagentProgress": True},
            agentId="helper-1")  # fmt: skip
    todos = [("first", "in_progress"), ("second", "pending"), ("third", "cancelled")]
    todos = [{"description": name, "status": status} for name, status in todos]
    it.call("write_todos", {"todos": todos}, "Updated", {"todos": todos})
    shot = it.make("gemini", "", model="m", toolCalls=[{
        "id": "shot", "name": "shot", "args": {}, "status": "success", "timestamp": it.time(),
        "result": [{"functionResponse": {"id": "shot", "name": "shot", "response": {"output": "A"},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}]}}],
    }])  # fmt: skip
    it.again(shot)
    it.add("gemini", [text("Binary content received.") | {"thought": True}], thoughts=[])
    it.add("info", [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}])
    it.agent("It is fixed.")


def _go_on(it: GeminiFile) -> None:
    it.user(
        "Look at @b.py, which is a file", text("\n--- Content from referenced files ---"),
        text("\nContent from @b.py:\n"), text("b = 1\n"), text("\n--- End of content ---"),
        displayContent=[text("Look at @b.py")],
    )  # fmt: skip
    it.agent("Seen.")
    it.user(
        "And @c.py", text("\n--- Content from referenced files ---"),
        text("\nContent from @c.py:\n"), text("c = 1\n"), text("\n--- End of content ---"),
        text("is it right?"),
    )  # fmt: skip
    it.agent("Yes.")
    it.user(
        "And @/d.py of mine", text("\n--- Content from referenced context ---"),
        text("\nContent from @/d.py:\n"), text("d = 1\n"),
    )  # fmt: skip
    it.call("glob", {"pattern": "*"}, "nothing")
    steering = "User steering update:\n<user_input>\nBe quick\n</user_input>\nGo on"
    it.user(steering)
    it.add("error", "[API Error: too many]")
    it.add("warning", "Slow today")
    it.user("Here is the user's editor context as a JSON object. This is for your information")
    it.user("I ran the following shell command:\n```sh\nls\n```\n\n"
            "This produced the following result:\n```\na.py\n```")  # fmt: skip
    it.user("Stop it")
    it.add("info", "Request cancelled.")
    # The tool's history has no such prompt any more, and no calls.
    kept = [dict(message) for message in it.messages.values() if message["type"] != "info"][:-1]
    for message in kept:
        message.pop("toolCalls", None)
    it.replace(kept)
    it.user("Go on")
    it.agent("Going on.")
    it.put({"$set": {"directories": [CWD, "/more"]}})
    it.put({"$set": {"summary": "Fixing a.py"}})
    it.put({"$set": {"memoryScratchpad": {"version": 1}}})
    it.put({"from": "the future"})


def older() -> GeminiFile:
    """Return a session of the time when a file was one object, which has no results of its own."""
    it = GeminiFile(messages=[])
    _work(it)
    it.turn(1)
    it.messages = {
        name: message for name, message in it.messages.items()
        if "functionResponse" not in json.dumps(message["content"])
    }  # fmt: skip
    return it


def compacted() -> GeminiFile:
    """Return a session of which all but the end became a summary."""
    it = GeminiFile()
    it.turn(1)
    it.turn(2)
    it.call("glob", {"pattern": "*"}, "a.py")
    it.agent("Only that.")
    first, *_ = it.messages.values()
    it.put({"$set": {"sessionId": it.session}})
    answer = [text("Hm") | {"thought": True}, text("Answer 2")]
    made = {"functionCall": {"id": "glob_6", "name": "glob", "args": {"pattern": "*"}}}
    brought = {"functionResponse": {"id": "glob_6", "name": "glob", "response": {"output": "a"}}}
    it.replace([
        first,
        it.make("user", [text("<state_snapshot>\nAsked twice\n</state_snapshot>")]),
        it.make("gemini", [text("Got it. Thanks for the additional context!")], thoughts=[]),
        it.make("user", [text("Question 2")]),
        it.make("gemini", answer, thoughts=[]),
        it.make("gemini", [made], thoughts=[]),
        it.make("user", [brought]),
        it.make("gemini", [text("Only that.")], thoughts=[]),
    ])  # fmt: skip
    it.turn(3)
    return it


def written_again() -> GeminiFile:
    """Return a session whose history the tool wrote down once more, as if it were new."""
    it = GeminiFile()
    it.turn(1)
    it.turn(2)
    for number in (1, 2):
        it.add("user", [text(f"Question {number}")])
        it.add("gemini", [text(f"Answer {number}")], thoughts=[], tokens=None)
    it.replace(list(it.messages.values())[-4:])
    it.user("Question 2")
    it.agent("Answer 2")
    it.user("Question 1")
    return it


def gone_back() -> GeminiFile:
    """Return a session that was gone back in, twice, and once to nowhere."""
    it = GeminiFile()
    it.turn(1)
    this = it.user("This way")
    it.agent("Going this way")
    it.call("glob", {"pattern": "this"}, "way")
    it.go_back(this)
    it.replace(list(it.messages.values()))
    that = it.user("That way")
    it.agent("Going that way")
    it.go_back(that)
    it.user("No way")
    it.agent("Staying")
    return it


def buried() -> GeminiFile:
    """Return a session that was loaded in the minute in which it was begun."""
    it = GeminiFile()
    it.turn(1)
    it.call("glob", {"pattern": "*"}, "a.py")
    it.agent("Only that.")
    it.begin()
    it.turn(2)
    return it


def resumed(home: Path) -> Path:
    """Write a session with several files: one goes on while others are there."""
    first = GeminiFile()
    first.turn(1)
    second = GeminiFile(minute=5)
    second.lines.append(b"")
    first.number = 10 * 60
    first.put({"$set": {"sessionId": SESSION}})
    first.replace(list(first.messages.values()))
    first.turn(2)
    third = GeminiFile(minute=20)
    third.messages |= first.messages
    third.replace(list(third.messages.values()))
    third.turn(3)
    first.number = 30 * 60
    first.turn(4)
    for file in (first, second, third):
        file.write(home)
    other = GeminiFile(session=SESSION[:8] + "-another", minute=2)
    other.turn(9)
    return other.write(home).parent


def sub_agents(home: Path) -> Path:
    """Write a session with sub-agents: below it, and beside it."""
    it = GeminiFile()
    it.user("Do it")
    it.call("invoke_agent", {"agent_name": "helper"}, "Helped", "Helped", agentId="helper-1")
    it.agent("It is done")
    path = it.write(home)
    child = GeminiFile(session="helper-1", kind="subagent", directories=[CWD])
    child.turn(1)
    below = path.parent / SESSION / "helper-1.jsonl"
    below.parent.mkdir()
    below.write_bytes(child.data())
    flat = GeminiFile(session="33333333-old", kind="subagent", minute=1)
    flat.turn(2)
    flat.write(home)
    empty = GeminiFile(session="44444444-nothing", minute=2)
    empty.add("info", "Welcome")
    empty.write(home)
    return path.parent


def damaged() -> bytes:
    """Return a file as crashes and strange hands leave it."""
    it = GeminiFile()
    it.turn(1)
    it.lines.append(b"")
    it.lines[-2] = b"\0" * 20 + it.lines[-2]
    it.lines.append(b"not json")
    it.lines.append(b'{"id":"cut","type":"user","content":[{"text":"cut o')
    it.user("Half a character: \N{GRINNING FACE}")
    it.lines[-2] = it.lines[-2].replace("\N{GRINNING FACE}".encode(), rb"\ud83d")
    it.put({"id": "a", "type": "gemini", "content": 7, "thoughts": 5, "toolCalls": "x"})
    it.put({"id": "b", "type": "gemini", "toolCalls": [3, {}, {"id": 5, "name": "x", "args": []}]})
    it.put({"id": "c", "type": "gemini", "content": {"text": "One part"}, "timestamp": "then"})
    it.put({"id": "c", "type": "gemini", "content": "Other words", "model": "m"})
    it.put({"id": "d", "type": "user", "content": ["Bare words", {"inlineData": 3}, 4, None]})
    it.put({"id": "d", "type": "user", "content": "Asked otherwise"})
    it.put({"id": "e", "type": "strange", "content": "?"})
    it.put({"id": 5, "type": "user", "content": "A number is no id"})
    it.put({"$set": {"messages": [3, {"id": "f", "type": "user", "content": "In a list"}, {}]}})
    it.put({"$set": 7})
    it.put({"$rewindTo": 7})
    late = {"id": "late", "name": "read_file", "args": {"file_path": 3}, "status": "executing"}
    it.put({"id": "g", "type": "gemini", "content": "", "toolCalls": [late]})
    it.put(
        {
            "id": "g",
            "type": "gemini",
            "content": "",
            "toolCalls": [
                late | {"status": "success", "result": {"functionResponse": {"response": {"x": 1}}}}
            ],
        }
    )
    it.put({"id": "h", "type": "gemini", "content": [{"functionCall": {"name": "glob"}}]})
    response = {"name": "glob", "response": {"error": "no"}}
    it.put({"id": "i", "type": "user", "content": {"functionResponse": response}})
    response = {"id": "unknown", "name": "write_todos", "response": 5}
    it.put({"id": "j", "type": "user", "content": {"functionResponse": response}})
    response = {"id": "who", "name": "who", "response": {"output": "asked?"}}
    it.put({"id": "k", "type": "user", "content": {"functionResponse": response}})
    it.lines.append("\u00e9\u0085\u2028".encode() + b"\xff")
    it.agent("Invalid: \xe9")
    it.lines[-2] = it.lines[-2].replace("\xe9".encode(), b"\xe9")
    return it.data() + b'{"id":"z","type":"gemini","con'
