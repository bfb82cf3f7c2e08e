"""As much of JSON Schema as the schemas of this repository use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,),
    "number": (int, float), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
KNOWN = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "required", "properties",
         "additionalProperties", "items", "enum", "const", "minimum", "maximum"}  # fmt: skip


def problems(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None, at: str = "$") -> Iterator[str]:
    """Everything in a value that a schema does not allow."""
    root = root or schema
    unknown = set(schema) - KNOWN
    assert not unknown, f"this checker does not know {unknown}"
    if "$ref" in schema:
        file, _, name = schema["$ref"].partition("#/$defs/")
        if file:
            root = json.loads((SCHEMAS / file).read_text())
        yield from problems(value, root["$defs"][name] if name else root, root, at)
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        fits = any(isinstance(value, TYPES[name]) for name in names)
        if not fits or isinstance(value, bool) and "boolean" not in names:
            yield f"{at}: {value!r} is no {names}"
            return
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            yield f"{at}: {value} is out of range"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                yield f"{at}: {name} is missing"
        for name, item in value.items():
            if name in properties:
                yield from problems(item, properties[name], root, f"{at}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{at}: {name} is not described"
    if isinstance(value, list) and "items" in schema:
        for place, item in enumerate(value):
            yield from problems(item, schema["items"], root, f"{at}[{place}]")
