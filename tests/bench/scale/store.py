"""What etcd holds, read and written beside the API server, by etcd's JSON gateway."""

import base64
import json
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.support.cluster.settings import ETCD_URL

MOST_OPERATIONS = 128
"""Of one transaction, etcd's own bound."""
MOST_BYTES = 1_000_000
"""Of one, below etcd's 1.5 MB."""


def read(prefix: str) -> dict[str, str]:
    """Return keys and values below a prefix."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    answer = _ask("range", {"key": _coded(prefix), "range_end": _coded(end)})
    return {_plain(one["key"]): _plain(one["value"]) for one in answer.get("kvs", [])}


def keys(prefix: str) -> list[str]:
    """Return the keys below a prefix."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    ask = {"key": _coded(prefix), "range_end": _coded(end), "keys_only": True}
    return [_plain(one["key"]) for one in _ask("range", ask).get("kvs", [])]


def write(values: Mapping[str, str]) -> None:
    """Put values under their keys; the API server learns of them as of any other write."""
    puts = [
        {"requestPut": {"key": _coded(key), "value": _coded(one)}} for key, one in values.items()
    ]
    for first in range(0, len(puts), MOST_OPERATIONS):
        _ask("txn", {"success": puts[first : first + MOST_OPERATIONS]})


def _ask(what: str, body: dict[str, Any]) -> dict[str, Any]:
    url, asked = f"{ETCD_URL}/v3/kv/{what}", json.dumps(body).encode()
    request = urllib.request.Request(url, asked)  # noqa: S310 - a constant of ours
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _plain(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace")
