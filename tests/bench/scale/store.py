"""Direct reads and writes of etcd through its JSON gateway, without the API server."""

import base64
import json
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.support.cluster.settings import ETCD_URL

MAX_OPERATIONS = 128
"""Operations per transaction, etcd's default limit."""
MAX_BYTES = 1_000_000
"""Bytes per transaction, below etcd's limit of 1.5 MB."""


def read(prefix: str) -> dict[str, str]:
    """Return keys and values below a prefix."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    answer = _call("range", {"key": _coded(prefix), "range_end": _coded(end)})
    return {_plain(entry["key"]): _plain(entry["value"]) for entry in answer.get("kvs", [])}


def keys(prefix: str) -> list[str]:
    """Return the keys below a prefix."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    query = {"key": _coded(prefix), "range_end": _coded(end), "keys_only": True}
    return [_plain(entry["key"]) for entry in _call("range", query).get("kvs", [])]


def write(values: Mapping[str, str]) -> None:
    """Write values to their keys; the API server's watches deliver them like any other write."""
    puts = [
        {"requestPut": {"key": _coded(key), "value": _coded(value)}}
        for key, value in values.items()
    ]
    for first in range(0, len(puts), MAX_OPERATIONS):
        _call("txn", {"success": puts[first : first + MAX_OPERATIONS]})


def _call(what: str, body: dict[str, Any]) -> dict[str, Any]:
    url, payload = f"{ETCD_URL}/v3/kv/{what}", json.dumps(body).encode()
    request = urllib.request.Request(url, payload)  # noqa: S310 - a constant of ours
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as answer:
        result: dict[str, Any] = json.load(answer)
    return result


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _plain(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace")
