"""Rules for the shape of the source: few fields per class, one definition per public class name."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import rekindle

PACKAGE = Path(rekindle.__file__).parent
MAX_MUTABLE_FIELDS = 12


@cache
def classes() -> list[tuple[str, ast.ClassDef]]:
    """Return each class with the name of its module. The example agent is independent."""
    modules = [(path, path.relative_to(PACKAGE).as_posix()) for path in PACKAGE.rglob("*.py")]
    return [
        (name, node)
        for path, name in sorted(modules)
        if not name.startswith("example_agent/")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]


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
    assert found == set()


def test_no_public_class_name_is_defined_twice() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for module, node in classes():
        if not node.name.startswith("_"):
            modules[node.name].add(module)
    assert {name for name, where in modules.items() if len(where) > 1} == set()
