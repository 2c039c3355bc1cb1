"""The fields that types have are those of the published schemas, stable and unstable."""

import json
from typing import Any

import pytest

from rekindle.conformance.rules import fields
from schema import FILES, SDK, why_missing

Json = dict[str, Any]
pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "")
DRAFTS = {"models"}
"""What no schema has any more, and many agents have."""


def of_both_schemas(version: int, name: str) -> set[str]:
    """Return the fields of a type, in all of its forms."""
    found: set[str] = set()
    for file in FILES:
        path = SDK / "schema" / f"v{version}" / file
        found |= names_in(types(path.read_text("utf-8")), {"$ref": f"#/$defs/{name}"})
    return found - {"_meta"}


def types(document: str) -> Json:
    return json.loads(document)["$defs"]


def names_in(definitions: Json, node: Json) -> set[str]:
    if "$ref" in node:
        return names_in(definitions, definitions.get(node["$ref"].split("/")[-1], {}))
    forms = [form for key in ("anyOf", "oneOf", "allOf") for form in node.get(key, [])]
    return set(node.get("properties", {})).union(*(names_in(definitions, it) for it in forms))


@pytest.mark.parametrize("version", fields.TYPES)
def test_types_have_the_fields_of_the_schemas(version: int) -> None:
    for name, known in fields.TYPES[version].items():
        assert set(known) - DRAFTS == of_both_schemas(version, name), name


@pytest.mark.parametrize("version", fields.UPDATES)
def test_updates_have_the_fields_of_the_schemas(version: int) -> None:
    found: dict[str, set[str]] = {}
    for file in FILES:
        definitions = types((SDK / "schema" / f"v{version}" / file).read_text("utf-8"))
        union = definitions["SessionUpdate"]
        for form in union.get("oneOf") or union["anyOf"]:
            kind = form["properties"]["sessionUpdate"].get("const")
            found.setdefault(kind, set()).update(names_in(definitions, form))
    found.pop(None, None)  # what is of no kind yet
    known = {kind: {*names, "sessionUpdate"} for kind, names in fields.UPDATES[version].items()}
    assert known == {kind: names - {"_meta"} for kind, names in found.items()}
