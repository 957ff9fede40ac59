"""The socket's messages as JSON Schema: ``python -m leasehold.documents.json_schema > docs/protocol.schema.json``."""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import TypeAdapter

from leasehold.documents.live.messages import FROM_CLIENT, FROM_SERVER, CloseCode


def protocol_schema() -> dict[str, Any]:
    """One document: ``$defs`` has every message; `ClientMessage` and `ServerMessage` are their unions."""
    adapters: list[tuple[str, Any, TypeAdapter[Any]]] = [
        ("ClientMessage", "validation", FROM_CLIENT),
        ("ServerMessage", "serialization", FROM_SERVER),
    ]
    messages, shared = TypeAdapter.json_schemas(adapters)
    definitions: dict[str, Any] = dict(shared["$defs"])
    for (name, _), schema in messages.items():
        definitions[name] = schema
    definitions["CloseCode"] = {
        "description": CloseCode.__doc__,
        "oneOf": [{"const": int(code), "title": code.name} for code in CloseCode],
    }
    for definition in definitions.values():
        # With a title that repeats the member's name, generators would make a type for each member.
        for member in definition.get("properties", {}).values():
            member.pop("title", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages over the socket of the document service",
        "anyOf": [{"$ref": "#/$defs/ClientMessage"}, {"$ref": "#/$defs/ServerMessage"}],
        "$defs": dict(sorted(definitions.items())),
    }


def main() -> None:
    """Print the schema."""
    sys.stdout.write(json.dumps(protocol_schema(), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
