"""Rules for the shape of the source: fields per class, names of classes, modules per request."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rekindle

PACKAGE = Path(rekindle.__file__).parent
MAX_MUTABLE_FIELDS = 12


@cache
def classes() -> list[tuple[str, ast.ClassDef]]:
    """Return each class with the name of its module. The example agent is independent."""
    found: list[tuple[str, ast.ClassDef]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        # Parsing is slow, and many modules have no class.
        if not name.startswith("example_agent/") and re.search(r"^\s*class ", text, re.MULTILINE):
            found += ((name, node) for node in _classes_in(ast.parse(text)))
    return found


def _classes_in(node: ast.AST) -> Iterator[ast.ClassDef]:
    """Yield the classes within a node. Only statements can have one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield child
        if isinstance(child, ast.stmt | ast.excepthandler):
            yield from _classes_in(child)


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


def test_a_load_passes_through_few_modules() -> None:
    script = PACKAGE.parent.parent / "bench" / "call_path.py"
    done = subprocess.run([sys.executable, script], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
