"""`rekindle setup` writes a command that starts Rekindle however it was installed.

Each test lays out an installation as the tool does, asks it for the command, and runs that command
as an editor would: from another folder, and with a short PATH. The environments are real. A file
that extends the module path takes the place of the installed packages.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import rekindle
from stdio_client import TIMEOUT

SOURCE = Path(rekindle.__file__).parents[1]
# The package comes from the source, and its dependencies from the environment of the tests.
MODULE_PATH = f"{SOURCE}\n{sysconfig.get_path('purelib')}\n"
PROGRAMS = ("rekindle", "rekindle-acp")
UV, PIPX = shutil.which("uv") or "", shutil.which("pipx") or ""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def environment(folder: Path, origin: object = None, *, programs: bool = True) -> Path:
    """Create a virtual environment with Rekindle; return the folder of its programs."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "rekindle.pth").write_text(MODULE_PATH, encoding="utf-8")
    information = packages / "rekindle_acp-0.2.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: rekindle-acp\nVersion: 0.2.0\n", encoding="utf-8")
    if origin:
        (information / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    for name in PROGRAMS if programs else ():
        program(
            folder / "bin" / name,
            f"#!{folder}/bin/python\n"
            "import sys\nfrom rekindle.__main__ import main\nsys.exit(main())\n",
        )
    return folder / "bin"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def links(folder: Path, programs: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        (folder / name).symlink_to(programs / name)
    return folder


def written_command(home: Path, *start: str | Path, **variables: str) -> list[str]:
    """Return the command that `setup` writes for Rekindle, after a check that it works."""
    variables = {"HOME": str(home), "PATH": "/usr/bin:/bin"} | variables
    words = [*start, "setup", "jetbrains", "--", "/bin/true", "--its-option"]
    done = subprocess.run(
        words, env=variables, cwd=home, capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    (agent,) = json.loads(done.stdout)["agent_servers"].values()
    command = [agent["command"], *agent["args"]]
    agent_start = ["run", "--", "/bin/true", "--its-option"]
    assert command[-len(agent_start) :] == agent_start
    ours = command[: -len(agent_start)]
    version = subprocess.run(
        [*ours, "--version"],
        env={"HOME": "/nowhere", "PATH": "/usr/bin:/bin"}
        | {name: value for name, value in variables.items() if name.startswith("UV_")},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    ).stdout
    assert version.startswith("rekindle ")
    return ours


def test_virtual_environment_is_named_with_its_full_path(home: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv")
    start = os.path.relpath(programs / "rekindle-acp", home)
    assert written_command(home, start) == [str(programs / "rekindle")]


def test_link_of_uv_tool_is_used(home: Path) -> None:
    folder = home / ".local/share/uv/tools/rekindle-acp"
    shown = links(home / "bin", environment(folder))
    entries = ",".join(f'{{name="{it}", install-path="{shown / it}"}}' for it in PROGRAMS)
    (folder / "uv-receipt.toml").write_text(f"[tool]\nentrypoints = [{entries}]\n")
    assert written_command(home, folder / "bin/rekindle") == [str(shown / "rekindle")]
    # An unreadable receipt is ignored.
    (folder / "uv-receipt.toml").write_text("entrypoints = [")
    assert written_command(home, folder / "bin/rekindle") == [str(folder / "bin/rekindle")]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("variable", ["", "PIPX_BIN_DIR", "PATH"])
def test_link_of_pipx_is_used(home: Path, variable: str) -> None:
    folder = home / ".local/share/pipx/venvs/rekindle-acp"
    shown = links(home / (variable or ".local/bin"), environment(folder))
    (folder / "pipx_metadata.json").write_text("{}")
    variables = {variable: str(shown)} if variable else {}
    assert written_command(home, folder / "bin/rekindle", **variables) == [str(shown / "rekindle")]


def test_link_of_homebrew_is_used(home: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "Cellar/rekindle-acp/0.2.0/libexec")
    shown = links(tmp_path / "bin", programs)
    assert written_command(home, programs / "rekindle") == [str(shown / "rekindle")]


def test_program_of_another_package_is_not_used(home: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv")
    program(home / ".local/bin/rekindle", "#!/bin/sh\necho photos\n")
    (home / ".local/bin/rekindle-acp").symlink_to(programs / "rekindle-acp")
    ours = str(home / ".local/bin/rekindle-acp")
    assert written_command(home, programs / "rekindle", PATH=str(home / ".local/bin")) == [ours]


GIT = {
    "url": "https://example.com/r.git",
    "vcs_info": {"vcs": "git", "commit_id": "0a", "requested_revision": "main"},
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("origin", "package"),
    [
        (GIT, ["--from", "git+https://example.com/r.git@main", "rekindle-acp"]),
        (None, ["rekindle-acp"]),
        ({"url": "file:///a%20b/r.whl"}, ["--from", "/a b/r.whl", "rekindle-acp"]),
    ],
)
def test_uvx_is_used_for_its_temporary_environment(
    home: Path, tmp_path: Path, origin: object, package: list[str]
) -> None:
    programs = environment(home / ".cache/uv/archive-v0/b1HnoDrG2boa2ArV", origin)
    text = f'#!/bin/sh\nshift {len(package)}\nexec {programs}/rekindle "$@"\n'
    uvx = program(tmp_path / "uvx", text)
    command = written_command(home, programs / "rekindle-acp", UV=str(tmp_path / "uv"))
    assert command == [str(uvx), *package]


def test_uvx_on_the_path_is_preferred_to_uv(home: Path, tmp_path: Path) -> None:
    programs = environment(home / ".cache/uv/environments-v2/8b0cbae4892decd7")
    text = '#!/bin/sh\nshift {}\nexec {}/rekindle "$@"\n'
    uv = program(tmp_path / "uv", text.format(3, programs))
    variables = {"UV": str(tmp_path / "gone/uv"), "PATH": f"{tmp_path}:/bin"}
    command = written_command(home, programs / "rekindle", **variables)
    assert command == [str(uv), "tool", "run", "rekindle-acp"]
    uvx = program(tmp_path / "uvx", text.format(1, programs))
    assert written_command(home, programs / "rekindle", **variables) == [str(uvx), "rekindle-acp"]


def test_pipx_run_is_used_for_its_temporary_environment(home: Path, tmp_path: Path) -> None:
    folder = home / ".cache/pipx/6e3a16e46d321e6"
    programs = environment(folder)
    (folder / "pipx_metadata.json").write_text("{}")
    pipx = program(tmp_path / "bin/pipx", f'#!/bin/sh\nshift 2\nexec {programs}/rekindle "$@"\n')
    command = written_command(home, programs / "rekindle", PATH=f"{pipx.parent}:/bin")
    assert command == [str(pipx), "run", "rekindle-acp"]


def test_source_tree_is_used_where_no_program_is_installed(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    python = environment(folder, programs=False) / "python"
    (dependencies,) = folder.glob("lib/python*/site-packages/rekindle.pth")
    dependencies.write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    start = (python, "-m", "rekindle")
    command = written_command(home, *start, PYTHONPATH=str(SOURCE))
    assert command == [shutil.which("env"), f"PYTHONPATH={SOURCE}", *map(str, start)]


def test_user_scheme_is_used_for_a_package_of_the_user(home: Path) -> None:
    python = home / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    packages = home / f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    packages.mkdir(parents=True)
    (packages / "rekindle").symlink_to(SOURCE / "rekindle")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    text = f'#!/bin/sh\nHOME={home} exec {python} -m rekindle "$@"\n'
    ours = program(home / ".local/bin/rekindle", text)
    assert written_command(home, ours) == [str(ours)]


# -- the real tools ---------------------------------------------------------------------------


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel that installs the programs and a path to the source, without a download."""
    wheel = tmp_path / "rekindle_acp-0.2.0-py3-none-any.whl"
    programs = "\n".join(f"{name} = rekindle.__main__:main" for name in PROGRAMS)
    files = {
        "METADATA": "Metadata-Version: 2.1\nName: rekindle-acp\nVersion: 0.2.0\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": f"[console_scripts]\n{programs}\n",
    }
    files = {f"rekindle_acp-0.2.0.dist-info/{name}": text for name, text in files.items()}
    files["rekindle_acp.pth"] = MODULE_PATH
    files["rekindle_acp-0.2.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def call(home: Path, *words: str | Path) -> None:
    variables = {"HOME": str(home), "PATH": f"{Path(UV or PIPX).parent}:/usr/bin:/bin"}
    subprocess.run(words, env=variables, cwd=home, capture_output=True, timeout=TIMEOUT, check=True)


@pytest.mark.skipif(not UV, reason="uv is not installed")
def test_command_of_a_real_uv_tool_survives_a_new_installation(home: Path, wheel: Path) -> None:
    install = (UV, "tool", "install", "--offline", "--python", sys.executable, wheel)
    call(home, *install)
    shown = home / ".local/bin/rekindle"
    tools = home / ".local/share/uv/tools"
    assert written_command(home, tools / "rekindle-acp/bin/rekindle") == [str(shown)]
    call(home, *install, "--reinstall")
    assert written_command(home, shown) == [str(shown)]


@pytest.mark.skipif(not UV, reason="uv is not installed")
def test_command_of_a_real_uvx_works(home: Path, wheel: Path) -> None:
    uvx = str(Path(UV).with_name("uvx"))
    settings = {"CACHE_DIR": str(home / "cache"), "PYTHON": sys.executable, "OFFLINE": "1"}
    variables = {f"UV_{name}": value for name, value in settings.items()}
    ours = [uvx, "--from", str(wheel), "rekindle-acp"]
    assert written_command(home, *ours, **variables) == ours


@pytest.mark.skipif(not (PIPX and UV), reason="pipx and uv are not installed")
def test_link_of_a_real_pipx_is_used(home: Path, wheel: Path) -> None:
    call(home, PIPX, "install", "--backend", "uv", "--python", sys.executable, wheel)
    shown = home / ".local/bin/rekindle"
    assert written_command(home, shown) == [str(shown)]
