"""Rules for the shape of the source: few fields per class, one definition per public class name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import rekindle

PACKAGE = Path(rekindle.__file__).parent
MAX_MUTABLE_FIELDS = 12

TOO_MANY_FIELDS = {
    "client/process.py:Process",
    "client/session_channel.py:Talk",
    "conformance/session_runner.py:Examiner",
    "transcript/reducer.py:Transcript",
}
"""Classes that still have too many fields. The list only shrinks."""
DEFINED_TWICE = {
    "Answer",
    "Finding",
    "Found",
    "Level",
    "Line",
    "Report",
    "Session",
    "Step",
    "Talk",
    "Turn",
}
"""Public class names that still have two definitions. The list only shrinks."""


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each class with the name of its module. The example agent is independent."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("example_agent/"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield name, node


def mutable_fields(node: ast.ClassDef) -> set[str]:
    """Return the fields of a struct that is not frozen, or the attributes set on `self`."""
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    if "Struct" in bases:
        options = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
        if options.get("frozen"):
            return set()
        return {
            child.target.id
            for child in node.body
            if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
        }
    return {
        child.attr
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute)
        and isinstance(child.ctx, ast.Store)
        and isinstance(child.value, ast.Name)
        and child.value.id == "self"
    }


def test_no_class_has_too_many_mutable_fields() -> None:
    found = {
        f"{module}:{node.name}"
        for module, node in classes()
        if len(mutable_fields(node)) > MAX_MUTABLE_FIELDS
    }
    assert found == TOO_MANY_FIELDS


def test_no_public_class_name_is_defined_twice() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for module, node in classes():
        if not node.name.startswith("_"):
            modules[node.name].add(module)
    assert {name for name, where in modules.items() if len(where) > 1} == DEFINED_TWICE
