"""The folders of a run: a temporary home with the agent's configuration, and a project in it."""

import tempfile
from collections.abc import Generator
from contextlib import chdir, contextmanager
from pathlib import Path

from msgspec import Struct

from interop.agents import AgentSpec, substitute
from interop.install import search_path
from interop.model.server import MODEL


class Workspace(Struct, frozen=True):
    """A project folder, and the command and environment of the agent."""

    project: Path
    command: tuple[str, ...]
    environ: dict[str, str]


@contextmanager
def prepared_workspace(spec: AgentSpec, url: str) -> Generator[Workspace, None, None]:
    """Create a workspace, and remove it in the end."""
    # Killed agents may still write, so that some files cannot be removed.
    with tempfile.TemporaryDirectory(prefix="interop-", ignore_cleanup_errors=True) as folder:
        home = Path(folder).resolve() / "home"
        project = home / "project"
        project.mkdir(parents=True)
        values = {"URL": url, "MODEL": MODEL, "HOME": str(home), "PROJECT": str(project)}
        for name, text in spec.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(substitute(text, values), encoding="utf-8")
        environ = {name: substitute(text, values) for name, text in spec.environ.items()}
        environ |= {"HOME": str(home), "PATH": search_path(spec.package)}
        environ["REKINDLE_STORE"] = str(home / "sessions.db")
        command = tuple(substitute(word, values) for word in spec.command)
        # Some agents write to their current folder instead of the session's folder.
        with chdir(project):
            yield Workspace(project, command, environ)
