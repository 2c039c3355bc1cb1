"""The example back end in docs/how-to/write-a-store.md fulfils the contract of a back end."""

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rekindle
from rekindle.cli.main import main
from rekindle.composition import open_store
from rekindle.errors import StoreMissing, UsageError
from rekindle.model import EntryBatch, Kind, Opened, Side
from rekindle.store import address as module
from rekindle.store.base import StoreBackend

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-store.md"
URL = "example://notes"
NOW = 1_700_000_000_000_000


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module in the document, registered as the document says."""
    shown = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    made = ModuleType("example_store")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    exec(shown[1], made.__dict__)  # noqa: S102 - our own document
    monkeypatch.setitem(module._BACKENDS, "example", made.EXAMPLE)  # noqa: SLF001 - the table of kinds
    return made


def test_example_has_every_method_of_a_backend(example: ModuleType) -> None:
    methods = dict(inspect.getmembers(StoreBackend, inspect.isfunction))
    public = {name: method for name, method in methods.items() if not name.startswith("_")}
    assert len(public) == 4
    for name, method in public.items():
        theirs = inspect.signature(getattr(example.ExampleBackend, name)).parameters
        assert list(theirs) == list(inspect.signature(method).parameters), name


def test_commands_use_the_example_store(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreMissing):
        rekindle.open_store(URL)
    prompt = b'{"params": {"prompt": [{"type": "text", "text": "Remember the milk."}]}}'
    said = EntryBatch(session_id="s1", side=Side.CLIENT, kind=Kind.PROMPT, at_us=NOW, data=prompt)
    with open_store(URL, create=True) as store:
        store.write([Opened(session_id="s1", at_us=NOW, cwd="/notes"), said])
    assert example.ExampleBackend("notes").exists()
    for words in (["list", "--all"], ["show", "s1"]):
        assert main([*words, "--store", URL]) == 0
    shown = capsys.readouterr().out
    assert "s1\t" in shown
    assert "Remember the milk." in shown


def test_an_address_without_a_name_is_refused(example: ModuleType) -> None:
    del example
    with pytest.raises(UsageError, match="has no name"):
        module.parse_address("example://")
