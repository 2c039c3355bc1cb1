"""The public names of `rekindle` and `rekindle.client`: complete, documented, lazily loaded."""

import ast
import inspect
import subprocess
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import rekindle
import rekindle.client
import rekindle.errors
from rekindle.acp.jsonrpc import Envelope
from rekindle.client import Agent, Choice, ClientSession, Turn

PUBLIC = [rekindle, rekindle.client]


def public_objects() -> list[tuple[str, Any]]:
    return [(name, getattr(module, name)) for module in PUBLIC for name in module.__all__]


def test_every_public_name_exists() -> None:
    for name in rekindle.__all__:
        value = getattr(rekindle, name)
        home = value.__name__ if isinstance(value, ModuleType) else value.__module__
        assert home.startswith("rekindle."), name
    assert set(rekindle.__all__) <= set(dir(rekindle))


def test_the_table_of_modules_and_all_have_the_same_names() -> None:
    names = [name for names in rekindle._MODULES.values() for name in names]  # noqa: SLF001 - its table
    assert sorted([*names, "errors"]) == sorted(rekindle.__all__)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = rekindle.nonsense  # type: ignore[attr-defined]


def test_every_public_class_and_function_has_a_docstring() -> None:
    for name, value in public_objects():
        if isinstance(value, type | FunctionType):
            assert value.__module__.startswith("rekindle."), name
            assert value.__doc__, name


def test_errors_module_is_public() -> None:
    assert rekindle.errors.SessionBusy is rekindle.client.SessionBusy


@pytest.mark.parametrize("address", ["{}/s.db", "sqlite:///{}/s.db"])
def test_open_store_accepts_a_path_and_an_address(address: str, tmp_path: Path) -> None:
    with rekindle.open_store(address.format(tmp_path), create=True) as store:
        assert store.sessions(rekindle.Page()) == []
    with rekindle.open_store(address.format(tmp_path)) as store:
        assert store.overview().whole.sessions == 0


def test_open_store_creates_a_store_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "mistyped.db"
    with pytest.raises(rekindle.errors.StoreMissing, match=r"create=True") as caught:
        rekindle.open_store(path)
    assert caught.value.address == str(path)
    assert "--store" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_name_is_not_looked_up_again() -> None:
    for name in rekindle.__all__:
        assert getattr(rekindle, name) is vars(rekindle)[name]


def test_errors_about_a_session_have_its_id() -> None:
    in_use = rekindle.errors.SessionInUse("s1", 7, "here")
    assert (in_use.session_id, in_use.pid, in_use.machine) == ("s1", 7, "here")
    assert rekindle.errors.SessionDeleted("s1").session_id == "s1"
    assert rekindle.errors.SessionPurged("s1").session_id == "s1"


# -- what they return -----------------------------------------------------------------------


def hints(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any public object
    """Return the annotations of a class or function. Names behind TYPE_CHECKING are public."""
    names = {name: getattr(rekindle, name) for name in rekindle.__all__}
    return typing.get_type_hints(value, localns=names)


def attributes_set_in_init(cls: type) -> dict[str, Any]:
    """Return the types of the public attributes that `__init__` annotates."""
    init = vars(cls).get("__init__")
    if not isinstance(init, FunctionType):
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
    return {
        node.target.attr: eval(ast.unparse(node.annotation), init.__globals__)  # noqa: S307 - our source
        for node in found
        if isinstance(node.target, ast.Attribute) and not node.target.attr.startswith("_")
    }


def annotations(value: Any, *, with_arguments: bool) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any public object
    """Yield the types of a function's result, or of a class's attributes and methods' results."""
    if isinstance(value, FunctionType):
        for name, hint in hints(value).items():
            if name == "return" or with_arguments:
                yield name, hint
    elif isinstance(value, type):
        yield from hints(value).items()
        yield from attributes_set_in_init(value).items()
        for name, member in vars(value).items():
            function = member.fget if isinstance(member, property) else member
            function = function.__func__ if isinstance(function, classmethod) else function
            if isinstance(function, FunctionType) and not name.startswith("_"):
                for _, hint in annotations(function, with_arguments=with_arguments):
                    yield name, hint
    else:
        yield "alias", value


def classes_in(hint: Any) -> Iterator[type]:  # noqa: ANN401 - any annotation
    """Yield the classes of an annotation, also those within unions and generics."""
    if isinstance(hint, list | tuple):
        for part in hint:
            yield from classes_in(part)
    elif typing.get_origin(hint) is not None:
        yield from classes_in(typing.get_args(hint))
    elif isinstance(hint, type):
        yield hint


def unexported(value: Any, exported: list[object], *, with_arguments: bool) -> list[str]:  # noqa: ANN401 - any public object
    return [
        f"{name}: {cls.__module__}.{cls.__qualname__}"
        for name, hint in annotations(value, with_arguments=with_arguments)
        for cls in classes_in(hint)
        if cls.__module__.startswith("rekindle") and cls not in exported
    ]


def test_everything_that_a_public_object_returns_is_public() -> None:
    exported = [value for _, value in public_objects() if isinstance(value, type)]
    found = {
        name: missing
        for name, value in public_objects()
        if (missing := unexported(value, exported, with_arguments=False))
    }
    assert found == {}


def test_everything_that_the_client_accepts_is_public() -> None:
    exported = [value for _, value in public_objects() if isinstance(value, type)]
    found = {
        name: missing
        for name in rekindle.client.__all__
        if (missing := unexported(getattr(rekindle.client, name), exported, with_arguments=True))
    }
    assert found == {}


class Private:
    """A class whose members have types of Rekindle."""

    def __init__(self) -> None:
        self.envelope: Envelope | None = None

    @property
    def sessions(self) -> dict[str, list[ClientSession]]:
        raise NotImplementedError

    def method(self, choice: Choice) -> tuple[Turn, ...]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("exported", "expected"),
    [
        ([ClientSession, Turn], ["Envelope"]),
        ([Envelope, Turn], ["ClientSession"]),
        ([Envelope, ClientSession], ["Turn"]),
        ([Envelope, ClientSession, Turn], []),
    ],
)
def test_the_walk_finds_types_in_attributes_properties_and_methods(
    exported: list[object], expected: list[str]
) -> None:
    found = unexported(Private, exported, with_arguments=False)
    assert [name.rpartition(".")[2] for name in found] == expected


def test_the_walk_finds_types_of_arguments() -> None:
    exported = [Envelope, ClientSession, Turn, Agent]
    (found,) = unexported(Private, exported, with_arguments=True)
    assert found.endswith(".Choice")


# -- what they load -------------------------------------------------------------------------


def modules_loaded_by(code: str) -> set[str]:
    script = f"import sys\nbefore = {{*sys.modules}}\n{code}\nprint(*sys.modules.keys() - before)"
    command = [sys.executable, "-c", script]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_import_of_rekindle_loads_nothing_else() -> None:
    assert modules_loaded_by("import rekindle") == {"rekindle"}


@pytest.mark.parametrize(
    ("code", "unloaded"),
    [
        ("import rekindle; rekindle.open_store", {"rekindle.client", "asyncio", "apsw"}),
        ("import rekindle; rekindle.Session", {"rekindle.client", "rekindle.store", "asyncio"}),
        ("import rekindle; rekindle.connect", {"rekindle.store", "apsw"}),
        ("import rekindle.client", {"rekindle.store", "apsw"}),
    ],
)
def test_a_public_name_loads_only_its_own_part(code: str, unloaded: set[str]) -> None:
    assert modules_loaded_by(code) & unloaded == set()
