"""The tables of fields equal the published schemas, stable and unstable."""

import json
from typing import Any

import pytest

from rekindle.conformance.rules import fields
from schema import FILES, SDK, why_missing

Json = dict[str, Any]
pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "")
DRAFTS = {"models", "rewind"}
"""Fields of an earlier draft that many agents still send, and of a proposal."""


def fields_in_schemas(version: int, name: str) -> set[str]:
    """Return the fields of all forms of a type."""
    found: set[str] = set()
    for file in FILES:
        path = SDK / "schema" / f"v{version}" / file
        found |= field_names(definitions_of(path.read_text("utf-8")), {"$ref": f"#/$defs/{name}"})
    return found - {"_meta"}


def definitions_of(document: str) -> Json:
    return json.loads(document)["$defs"]


def field_names(definitions: Json, node: Json) -> set[str]:
    if "$ref" in node:
        return field_names(definitions, definitions.get(node["$ref"].split("/")[-1], {}))
    forms = [form for key in ("anyOf", "oneOf", "allOf") for form in node.get(key, [])]
    return set(node.get("properties", {})).union(*(field_names(definitions, it) for it in forms))


@pytest.mark.parametrize("version", fields.TYPES)
def test_types_have_the_fields_of_the_schemas(version: int) -> None:
    for name, known in fields.TYPES[version].items():
        assert set(known) - DRAFTS == fields_in_schemas(version, name), name


@pytest.mark.parametrize("version", fields.UPDATES)
def test_updates_have_the_fields_of_the_schemas(version: int) -> None:
    found: dict[str, set[str]] = {}
    for file in FILES:
        definitions = definitions_of((SDK / "schema" / f"v{version}" / file).read_text("utf-8"))
        union = definitions["SessionUpdate"]
        for form in union.get("oneOf") or union["anyOf"]:
            kind = form["properties"]["sessionUpdate"].get("const")
            found.setdefault(kind, set()).update(field_names(definitions, form))
    found.pop(None, None)  # forms without a kind
    known = {kind: {*names, "sessionUpdate"} for kind, names in fields.UPDATES[version].items()}
    assert known == {kind: names - {"_meta"} for kind, names in found.items()}
