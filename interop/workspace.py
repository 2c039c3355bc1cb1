"""Where an agent runs: a temporary home that points it at the fake model, and a project in it."""

import tempfile
from collections.abc import Generator
from contextlib import chdir, contextmanager
from pathlib import Path

from msgspec import Struct

from interop.agents import AgentSpec, substitute
from interop.install import search_path
from interop.model.server import MODEL


class Workspace(Struct, frozen=True):
    """A folder to work in, and how an agent is started there."""

    project: Path
    command: tuple[str, ...]
    environ: dict[str, str]


@contextmanager
def prepared_workspace(spec: AgentSpec, url: str) -> Generator[Workspace, None, None]:
    """Make a place, and remove it in the end."""
    # Agents that were killed may leave things half written, and some write while they die.
    with tempfile.TemporaryDirectory(prefix="interop-", ignore_cleanup_errors=True) as folder:
        home = Path(folder).resolve() / "home"
        project = home / "project"
        project.mkdir(parents=True)
        values = {"URL": url, "MODEL": MODEL, "HOME": str(home), "PROJECT": str(project)}
        for name, words in spec.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(substitute(words, values), encoding="utf-8")
        environ = {name: substitute(words, values) for name, words in spec.environ.items()}
        environ |= {"HOME": str(home), "PATH": search_path(spec.package)}
        environ["REKINDLE_STORE"] = str(home / "sessions.db")
        command = tuple(substitute(word, values) for word in spec.command)
        # Some agents write where they are started, whatever they are told of a session's folder.
        with chdir(project):
            yield Workspace(project, command, environ)
