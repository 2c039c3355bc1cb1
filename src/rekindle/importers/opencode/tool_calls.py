"""What OpenCode's agents did with tools, as OpenCode itself tells it to a client."""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from msgspec import Raw, Struct

from rekindle.importers.base import Notes
from rekindle.importers.entry_builder import Json, change, shown, step, text
from rekindle.importers.lenient_reader import Reader, has_words, is_text
from rekindle.importers.opencode.records import NOTHING, Part, Shown, State
from rekindle.importers.patches import hunks_of_diff

PLANS = "todowrite"

_KINDS = {
    "bash": "execute", "shell": "execute",
    "webfetch": "fetch", "websearch": "fetch",
    "edit": "edit", "multiedit": "edit", "write": "edit", "patch": "edit", "apply_patch": "edit",
    "grep": "search", "glob": "search", "list": "search", "codesearch": "search",
    "read": "read",
    "task": "think",
}  # fmt: skip
_SHELLS = frozenset({"bash", "shell"})
_LARGEST_FILE = 16 * 1024 * 1024
_DATA_URL = re.compile(rb'"data:([^;,"]*)((?:;[^;,"]*)*),')
_CUT_OFF = "It was not finished."
_PRIORITIES = frozenset({"high", "medium", "low"})


class _Given(Struct, rename="camel"):
    """What tools are given, as far as something is made of it."""

    command: str | None = None
    workdir: str | None = None
    file_path: str | None = None
    path: str | None = None
    old_string: Raw = NOTHING
    new_string: Raw = NOTHING
    content: Raw = NOTHING


class _Diff(Struct, rename={"file_path": "filePath", "moved_to": "movePath"}, gc=False):
    """A change of a file: all that was before and after it, or only the lines around it."""

    file: str = ""
    file_path: str = ""
    before: str | None = None
    after: str | None = None
    patch: str = ""
    diff: str = ""


class _Result(Struct, gc=False):
    """What became of one change of several."""

    filediff: _Diff | None = None


class _Display(Struct, gc=False):
    """What a file that was read is like to people."""

    text: Raw = NOTHING


class _About(Struct, rename={"session_id": "sessionId"}):
    """What is known of a result, besides what the model was told."""

    exists: bool = False
    diff: str = ""
    filediff: _Diff | None = None
    files: list[_Diff] = []
    results: list[_Result] = []
    display: _Display | None = None
    output: Raw = NOTHING
    session_id: str | None = None


class _Todo(Struct, gc=False):
    """Something to be done."""

    content: str = ""
    status: str = ""
    priority: str = ""


class _Todos(Struct, gc=False):
    """All that is to be done."""

    todos: list[_Todo] = []


class _Error(Struct, gc=False):
    """What went wrong, as the newest version has it."""

    message: str = ""


_read_given = Reader(_Given)
_read_about = Reader(_About)
_read_todos = Reader(_Todos)
_read_error = Reader(_Error)


def call_fields(part: Part, cwd: str | None) -> Json:
    """Return what is told of a call when it begins."""
    state = part.state or State()
    given = _read_given(bytes(state.input)) or _Given()
    name = part.tool.lower()
    fields: Json = {
        "title": _title(part, given),
        "kind": _KINDS.get(name, "other"),
        "status": "pending",
    }
    place = (given.workdir or cwd) if name in _SHELLS else given.file_path or given.path
    if place:
        fields["locations"] = [{"path": _absolute(place, cwd)}]
    if bytes(state.input) not in {b"null", b""}:
        fields["rawInput"] = state.input
    return fields | {"_meta": {"opencode": {"toolName": part.tool}}}


def _absolute(path: str, cwd: str | None) -> str:
    """Name a file as the protocol wants it: models name it as seen from the project's folder."""
    is_so = path.startswith(("/", "~")) or path[1:2] == ":"
    return path if is_so or not cwd else f"{cwd.rstrip('/')}/{path}"


def _title(part: Part, given: _Given) -> str:
    if part.tool.lower() in _SHELLS and given.command:
        return given.command
    return (part.state.title if part.state is not None else None) or part.tool or "a tool"


def result_fields(part: Part, cwd: str | None, notes: Notes) -> Json:
    """Return what is told of a call when it has ended, or was left."""
    state = part.state or State()
    about = _read_about(bytes(_about(state))) or _About()
    is_done = state.status == "completed"
    fields: Json = {"status": "completed" if is_done else "failed"}
    if is_done:
        made = _changes(part.tool.lower(), state, about)
        content = [{**it, "path": _absolute(it["path"], cwd)} for it in made]
        content = content or list(_brought(state, about, notes))
    else:
        content = [shown(text(_complaint(state)))]
        content += [shown(text(about.output))] if has_words(about.output) else []
    if content:
        fields["content"] = content
    if about.session_id:
        fields["_meta"] = {"rekindle": {"childSessionId": about.session_id}}
    return fields


def _about(state: State) -> Raw:
    return state.structured if bytes(state.metadata) == b"null" else state.metadata


def _complaint(state: State) -> Raw | str:
    if has_words(state.error):
        return state.error
    found = _read_error(bytes(state.error))
    return (found.message if found is not None else "") or _CUT_OFF


def _brought(state: State, about: _About, notes: Notes) -> Iterator[Json]:
    display = about.display.text if about.display is not None else NOTHING
    words = display if has_words(display) else state.output
    if has_words(words):
        yield shown(text(words))
    for it in (*state.content, *state.attachments):
        if it.type == "text" and has_words(it.text):
            yield shown(text(it.text))
        elif it.type != "text":
            yield shown(file_block(it, notes))


# -- changes --------------------------------------------------------------------------------


def _changes(tool: str, state: State, about: _About) -> list[Json]:
    """Return what a tool has changed, as well as that is known."""
    if _KINDS.get(tool) != "edit":
        return []
    given = _read_given(bytes(state.input)) or _Given()
    path = given.file_path or given.path or ""
    of_each = [it.filediff for it in about.results if it.filediff is not None]
    diffs = of_each or about.files or ([about.filediff] if about.filediff is not None else [])
    made = [it for diff in diffs for it in _of_diff(diff, path)]
    if made or not path:
        return made
    if tool == "write" and is_text(given.content):
        return [change(path, None, given.content)]
    if is_text(given.old_string) or is_text(given.new_string):
        return [change(path, _or_empty(given.old_string), _or_empty(given.new_string))]
    return list(_hunks(path, about.diff))


def _of_diff(diff: _Diff, path: str) -> Iterator[Json]:
    path = diff.file_path or diff.file or path
    if not path:
        return
    if diff.after is not None:
        yield change(path, diff.before, diff.after)
    else:
        yield from _hunks(path, diff.patch or diff.diff)


def _hunks(path: str, patch: str) -> Iterator[Json]:
    """Yield the changes of a patch, with the lines around them."""
    for hunk in hunks_of_diff(patch):
        yield change(path, hunk.old or None, hunk.new)


def _or_empty(value: Raw) -> Raw:
    return value if is_text(value) else Raw(b'""')


# -- files ----------------------------------------------------------------------------------


def file_block(file: Part | Shown, notes: Notes) -> Json:
    """Return a file as a content block: a picture, what is in it, or where it is."""
    url = file.url if isinstance(file, Part) or is_text(file.url) else file.uri
    name = file.filename or file.name or "file"
    if not is_text(url):
        return text(f"[file: {name}]")
    words = bytes(url)
    if not words.startswith(b'"data:'):
        kind = {"mimeType": file.mime} if file.mime else {}
        return {"type": "resource_link", "uri": url, "name": name, **kind}
    head = _DATA_URL.match(words)
    if head is None or len(words) > _LARGEST_FILE or not head[2].endswith(b";base64"):
        notes.skip("a file is too large, or not written as others are")
        return text(f"[file: {name}]")
    mime = head[1].decode("utf-8", "replace") or file.mime
    data = words[head.end() : -1]
    if mime.startswith("image/"):
        return {"type": "image", "data": _quoted(data), "mimeType": mime}
    resource: Json = {"uri": f"file:///{quote(name.lstrip('/'))}", "mimeType": mime}
    said = _decoded(data) if mime.startswith("text/") or mime == "application/json" else None
    resource |= {"blob": _quoted(data)} if said is None else {"text": said}
    return {"type": "resource", "resource": resource}


def _quoted(data: bytes) -> Raw:
    return Raw(b'"%b"' % data)


def _decoded(data: bytes) -> str | None:
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return None


# -- plans ----------------------------------------------------------------------------------


def todo_steps(state: State) -> list[Json]:
    """Return the steps of a list that was written."""
    found = _read_todos(bytes(state.input)) or _Todos()
    return steps((it.content, it.status, it.priority) for it in found.todos)


def steps(todos: Iterable[tuple[str, str, str]]) -> list[Json]:
    """Return a list of things to be done, without those that were given up."""
    return [
        {**step(content, status), **({"priority": priority} if priority in _PRIORITIES else {})}
        for content, status, priority in todos
        if status != "cancelled"
    ]
