"""Generate files of Gemini CLI, with every type of record and every trap."""

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
    """A session's file, record by record, and the messages that the tool has in memory."""

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
        """Add the start of a file, which the tool sometimes writes again by mistake."""
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
        """Add any record."""
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())

    def make(self, kind: str, content: object, name: str | None = None, **fields: object) -> Json:
        """Return a message that is not written yet."""
        self.number += 1
        number = (int.from_bytes(self.session[:4].encode()) << 96) + self.number
        name = name or str(UUID(int=number, version=4))
        message = {"id": name, "timestamp": self.time(), "type": kind, "content": content}
        return message | {key: item for key, item in fields.items() if item is not None}

    def add(self, kind: str, content: object, name: str | None = None, **fields: object) -> str:
        """Add a message as the tool does; return its id."""
        message = self.make(kind, content, name, **fields)
        self.again(message)
        self.put({"$set": {"lastUpdated": message["timestamp"]}})
        return str(message["id"])

    def again(self, message: Json) -> None:
        """Add a message, or a new version of one."""
        self.messages[message["id"]] = message
        self.put(message)

    def user(self, words: str, *parts: Json, **fields: object) -> str:
        return self.add("user", [text(words), *parts], **fields)

    def agent(self, words: str, *thoughts: tuple[str, str]) -> str:
        told = [
            {"subject": item[0], "description": item[1], "timestamp": self.time()}
            for item in thoughts
        ]
        tokens = {"input": 100, "output": 10, "cached": 0, "thoughts": 5, "tool": 0, "total": 110}
        return self.add("gemini", words, thoughts=told, tokens=tokens, model="gemini-2.5-flash")

    def call(
        self, name: str, args: object, output: str = "", display: object = None, **fields: object
    ) -> str:  # fmt: skip
        """Add a completed call, in a message of its own or in an existing one."""
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
        """Add a list that replaces all earlier messages."""
        self.messages = {message["id"]: message for message in messages}
        self.put({"$set": {"messages": messages, "lastUpdated": self.time()}})

    def go_back(self, name: str) -> None:
        """Rewind to a message: remove it and all later ones."""
        kept = list(self.messages).index(name) if name in self.messages else 0
        self.messages = dict(list(self.messages.items())[:kept])
        self.put({"$rewindTo": name})

    def turn(self, number: int) -> None:
        """Add a question and its answer."""
        self.user(f"Question {number}")
        self.agent(f"Answer {number}")

    # -- as files -----------------------------------------------------------------------

    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def one_object(self, indent: int | None = 2) -> bytes:
        """Return the session in the format of older versions."""
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
    """Return a session with every known type of record."""
    file = GeminiFile()
    file.add("info", "Gemini CLI update available!")
    _work(file)
    _go_on(file)
    return file


def _work(file: GeminiFile) -> None:
    file.user(
        "Look at the picture\u2028and fix a.py",
        {"inlineData": {"mimeType": "image/png", "data": PICTURE}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        {"fileData": {"mimeType": "text/plain", "fileUri": "gs://bucket/a"}},
        text("<hook_context>be nice</hook_context>"),
    )
    file.agent("I look at it.", ("Planning", "It is in a.py."), ("", "No subject."))
    calls = file.call("read_file", {"file_path": "a.py"}, "def f():\n", "")
    file.agent("")
    change = {
        "fileDiff": "-a\n+b\n", "fileName": "a.py", "filePath": f"{CWD}/a.py",
        "originalContent": "a\n", "newContent": "b\n", "diffStat": {"model_added_lines": 1},
    }  # fmt: skip
    file.call("replace", {"file_path": f"{CWD}/a.py"}, "Modified", change, into=calls)
    screen = [[{"text": "ok   ", "bold": False}], [{"text": "     ", "bold": False}]]
    file.call("run_shell_command", {"command": "make"}, "Output: ok", screen, into=calls)
    found = {"summary": "Found 1 match", "matches": [{"filePath": "a.py"}]}
    file.call("grep_search", {"pattern": "f"}, "Found 1 match:\nFile: a.py\nL1: f and more", found)
    file.call("write_file", {"file_path": "/new"}, "Made", change | {"originalContent": None})
    file.call("replace", {"file_path": "/b"}, "Older", {"fileDiff": "-x\n+y", "fileName": "b"})
    file.call("web_fetch", {"prompt": "http://a"}, "A page", "A page")
    long = "Reads and returns the content of a file."
    file.call("read_file", {"file_path": "/no"}, "No such file", "No such file", status="error",
              description=long)  # fmt: skip
    file.call("glob", {"pattern": "("}, "No pattern", status="error")
    file.call("glob", {"pattern": "*"}, "", status="cancelled")
    file.call("mcp_tool", {"x": 1}, "", result="Plain words")
    file.call("invoke_agent", {"agent_name": "helper"}, "Helped", {"isSubagentProgress": True},
              agentId="helper-1")  # fmt: skip
    todos = [("first", "in_progress"), ("second", "pending"), ("third", "cancelled")]
    todos = [{"description": name, "status": status} for name, status in todos]
    file.call("write_todos", {"todos": todos}, "Updated", {"todos": todos})
    shot = file.make("gemini", "", model="m", toolCalls=[{
        "id": "shot", "name": "shot", "args": {}, "status": "success", "timestamp": file.time(),
        "result": [{"functionResponse": {"id": "shot", "name": "shot", "response": {"output": "A"},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}]}}],
    }])  # fmt: skip
    file.again(shot)
    file.add("gemini", [text("Binary content received.") | {"thought": True}], thoughts=[])
    file.add("info", [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}])
    file.agent("It is fixed.")


def _go_on(file: GeminiFile) -> None:
    file.user(
        "Look at @b.py, which is a file", text("\n--- Content from referenced files ---"),
        text("\nContent from @b.py:\n"), text("b = 1\n"), text("\n--- End of content ---"),
        displayContent=[text("Look at @b.py")],
    )  # fmt: skip
    file.agent("Seen.")
    file.user(
        "And @c.py", text("\n--- Content from referenced files ---"),
        text("\nContent from @c.py:\n"), text("c = 1\n"), text("\n--- End of content ---"),
        text("is it right?"),
    )  # fmt: skip
    file.agent("Yes.")
    file.user(
        "And @/d.py of mine", text("\n--- Content from referenced context ---"),
        text("\nContent from @/d.py:\n"), text("d = 1\n"),
    )  # fmt: skip
    file.call("glob", {"pattern": "*"}, "nothing")
    steering = "User steering update:\n<user_input>\nBe quick\n</user_input>\nGo on"
    file.user(steering)
    file.add("error", "[API Error: too many]")
    file.add("warning", "Slow today")
    file.user("Here is the user's editor context as a JSON object. This is for your information")
    file.user("I ran the following shell command:\n```sh\nls\n```\n\n"
              "This produced the following result:\n```\na.py\n```")  # fmt: skip
    file.user("Stop it")
    file.add("info", "Request cancelled.")
    # The tool's history no longer has this prompt and the calls.
    kept = [dict(message) for message in file.messages.values() if message["type"] != "info"][:-1]
    for message in kept:
        message.pop("toolCalls", None)
    file.replace(kept)
    file.user("Go on")
    file.agent("Going on.")
    file.put({"$set": {"directories": [CWD, "/more"]}})
    file.put({"$set": {"summary": "Fixing a.py"}})
    file.put({"$set": {"memoryScratchpad": {"version": 1}}})
    file.put({"from": "the future"})


def older() -> GeminiFile:
    """Return a session for the one-object format, which has no messages with results."""
    file = GeminiFile(messages=[])
    _work(file)
    file.turn(1)
    file.messages = {
        name: message for name, message in file.messages.items()
        if "functionResponse" not in json.dumps(message["content"])
    }  # fmt: skip
    return file


def compacted() -> GeminiFile:
    """Return a session that was compacted to a summary, except for its end."""
    file = GeminiFile()
    file.turn(1)
    file.turn(2)
    file.call("glob", {"pattern": "*"}, "a.py")
    file.agent("Only that.")
    first, *_ = file.messages.values()
    file.put({"$set": {"sessionId": file.session}})
    answer = [text("Hm") | {"thought": True}, text("Answer 2")]
    made = {"functionCall": {"id": "glob_6", "name": "glob", "args": {"pattern": "*"}}}
    brought = {"functionResponse": {"id": "glob_6", "name": "glob", "response": {"output": "a"}}}
    file.replace([
        first,
        file.make("user", [text("<state_snapshot>\nAsked twice\n</state_snapshot>")]),
        file.make("gemini", [text("Got it. Thanks for the additional context!")], thoughts=[]),
        file.make("user", [text("Question 2")]),
        file.make("gemini", answer, thoughts=[]),
        file.make("gemini", [made], thoughts=[]),
        file.make("user", [brought]),
        file.make("gemini", [text("Only that.")], thoughts=[]),
    ])  # fmt: skip
    file.turn(3)
    return file


def written_again() -> GeminiFile:
    """Return a session whose history the tool has written again as new messages."""
    file = GeminiFile()
    file.turn(1)
    file.turn(2)
    for number in (1, 2):
        file.add("user", [text(f"Question {number}")])
        file.add("gemini", [text(f"Answer {number}")], thoughts=[], tokens=None)
    file.replace(list(file.messages.values())[-4:])
    file.user("Question 2")
    file.agent("Answer 2")
    file.user("Question 1")
    return file


def gone_back() -> GeminiFile:
    """Return a session with two rewinds, and one to an unknown message."""
    file = GeminiFile()
    file.turn(1)
    this = file.user("This way")
    file.agent("Going this way")
    file.call("glob", {"pattern": "this"}, "way")
    file.go_back(this)
    file.replace(list(file.messages.values()))
    that = file.user("That way")
    file.agent("Going that way")
    file.go_back(that)
    file.user("No way")
    file.agent("Staying")
    return file


def buried() -> GeminiFile:
    """Return a session that was loaded in the same minute in which it was started."""
    file = GeminiFile()
    file.turn(1)
    file.call("glob", {"pattern": "*"}, "a.py")
    file.agent("Only that.")
    file.begin()
    file.turn(2)
    return file


def resumed(home: Path) -> Path:
    """Write a session with several files, which grow at the same time."""
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
    """Write a session with sub-agents below it and beside it."""
    file = GeminiFile()
    file.user("Do it")
    file.call("invoke_agent", {"agent_name": "helper"}, "Helped", "Helped", agentId="helper-1")
    file.agent("It is done")
    path = file.write(home)
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
    """Return a file with all kinds of damage."""
    file = GeminiFile()
    file.turn(1)
    file.lines.append(b"")
    file.lines[-2] = b"\0" * 20 + file.lines[-2]
    file.lines.append(b"not json")
    file.lines.append(b'{"id":"cut","type":"user","content":[{"text":"cut o')
    file.user("Half a character: \N{GRINNING FACE}")
    file.lines[-2] = file.lines[-2].replace("\N{GRINNING FACE}".encode(), rb"\ud83d")
    file.put({"id": "a", "type": "gemini", "content": 7, "thoughts": 5, "toolCalls": "x"})
    file.put(
        {"id": "b", "type": "gemini", "toolCalls": [3, {}, {"id": 5, "name": "x", "args": []}]}
    )
    file.put({"id": "c", "type": "gemini", "content": {"text": "One part"}, "timestamp": "then"})
    file.put({"id": "c", "type": "gemini", "content": "Other words", "model": "m"})
    file.put({"id": "d", "type": "user", "content": ["Bare words", {"inlineData": 3}, 4, None]})
    file.put({"id": "d", "type": "user", "content": "Asked otherwise"})
    file.put({"id": "e", "type": "strange", "content": "?"})
    file.put({"id": 5, "type": "user", "content": "A number is no id"})
    file.put({"$set": {"messages": [3, {"id": "f", "type": "user", "content": "In a list"}, {}]}})
    file.put({"$set": 7})
    file.put({"$rewindTo": 7})
    late = {"id": "late", "name": "read_file", "args": {"file_path": 3}, "status": "executing"}
    file.put({"id": "g", "type": "gemini", "content": "", "toolCalls": [late]})
    file.put(
        {
            "id": "g",
            "type": "gemini",
            "content": "",
            "toolCalls": [
                late | {"status": "success", "result": {"functionResponse": {"response": {"x": 1}}}}
            ],
        }
    )
    file.put({"id": "h", "type": "gemini", "content": [{"functionCall": {"name": "glob"}}]})
    response = {"name": "glob", "response": {"error": "no"}}
    file.put({"id": "i", "type": "user", "content": {"functionResponse": response}})
    response = {"id": "unknown", "name": "write_todos", "response": 5}
    file.put({"id": "j", "type": "user", "content": {"functionResponse": response}})
    response = {"id": "who", "name": "who", "response": {"output": "asked?"}}
    file.put({"id": "k", "type": "user", "content": {"functionResponse": response}})
    file.lines.append("\u00e9\u0085\u2028".encode() + b"\xff")
    file.agent("Invalid: \xe9")
    file.lines[-2] = file.lines[-2].replace("\xe9".encode(), b"\xe9")
    return file.data() + b'{"id":"z","type":"gemini","con'
