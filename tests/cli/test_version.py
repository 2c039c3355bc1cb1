"""`rekindle --version` and `-V`."""

import subprocess
import sys

import apsw
import pytest

import rekindle
import warm_start
from warm_start import REKINDLE

LINE = (
    f"rekindle {rekindle.__version__} "
    f"(Python {sys.version.split()[0]}, SQLite {apsw.sqlite_lib_version()})\n"
)


@pytest.mark.parametrize("options", [["--version"], ["-V"], ["--no-color", "-V"]])
def test_version_names_rekindle_python_and_sqlite(options: list[str]) -> None:
    done = warm_start.run([*REKINDLE, *options], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, LINE, "")


def test_other_options_do_not_import_sqlite() -> None:
    code = (
        "import sys\n"
        "from rekindle.cli.main import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "finally:\n"
        "    print('apsw' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "-V, --version" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
