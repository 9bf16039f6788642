"""`fill_values_schema`: completes `values.schema.json` of the chart, which is otherwise written by hand.

`poolDefaults` gets the schema of a policy's defaults. Every object with properties rejects other names, and lists the
known ones: helm quotes the list in its message, so that the message has the remedy.
"""

import json
from collections.abc import Mapping
from typing import Any

from penstock_api.codegen.structural import Schema

POOL_DEFAULTS = "poolDefaults"


def fill_values_schema(text: str, policy: Mapping[str, Any]) -> str:
    """Return the completed schema in JSON; `policy` is the root schema of an InferencePolicy."""
    schema = json.loads(text)
    defaults = policy["properties"]["spec"]["properties"]["defaults"]
    schema["properties"][POOL_DEFAULTS] = defaults
    return json.dumps(_closed(schema), indent=2, ensure_ascii=False) + "\n"


def _closed(node: Any) -> Any:
    """Return a schema whose objects reject names that their properties lack, without Kubernetes' keywords."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed: Schema = {
        key: _closed(value) for key, value in node.items() if not key.startswith("x-kubernetes-")
    }
    if node.get("type") == "object" and "properties" in node:
        names = node["properties"]  # names of values are not keywords, even if they equal one
        closed["properties"] = {name: _closed(value) for name, value in names.items()}
        if not isinstance(node.get("additionalProperties"), dict):
            closed["propertyNames"] = {"enum": list(names)}
            closed["additionalProperties"] = False
    return closed
