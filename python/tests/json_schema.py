"""The schemas of this repository, which refer to each other by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import referencing

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
DOCUMENTS = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.schema.json")}
REGISTRY = referencing.Registry().with_resources(
    (name, referencing.Resource.from_contents(document)) for name, document in DOCUMENTS.items()
)


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(DOCUMENTS[f"{name}.schema.json"], registry=REGISTRY)


def problems(value: Any, schema: dict[str, Any]) -> list[str]:
    """Everything in a value that a schema does not allow."""
    errors = jsonschema.Draft202012Validator(schema, registry=REGISTRY).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in errors]
