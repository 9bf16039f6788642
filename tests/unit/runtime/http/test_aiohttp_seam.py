"""The names of aiohttp that are not public and that the seam uses exist, and only the seam uses them."""

import ast
import asyncio
from pathlib import Path

import pytest
from aiohttp import web

import penstock_runtime.http
from penstock_runtime.http import aiohttp_seam

HTTP = Path(penstock_runtime.http.__file__).parent
SEAM = Path(aiohttp_seam.__file__)


def private_names(path: Path) -> set[str]:
    """Return the private attributes of `self` that a file reads, sets or overrides."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return {name for name in used if name.startswith("_") and not name.startswith("__")}


def of_aiohttp() -> set[str]:
    """Return the private attributes of aiohttp's protocol."""
    return {
        name
        for base in web.RequestHandler.__mro__
        for name in (*vars(base), *getattr(base, "__slots__", ()))
        if name.startswith("_") and not name.startswith("__")
    }


CONNECTION_NAMES = {
    "_close", "_current_request", "_force_close", "_keepalive_handle", "_keepalive_timeout", "_messages",
    "_next_keepalive_close_time", "_process_keepalive", "_request_count", "_upgraded", "_waiter",
}  # fmt: skip


async def test_aiohttp_has_the_names_that_the_seam_uses() -> None:
    server = web.Server(lambda _: asyncio.sleep(0))  # type: ignore[arg-type, return-value]
    connection = web.RequestHandler(server, loop=asyncio.get_running_loop())
    missing = [name for name in CONNECTION_NAMES if not hasattr(connection, name)]
    assert not missing, f"aiohttp {web.__name__} renamed {missing}: adapt http/aiohttp_seam.py"
    assert {"_loop", "_kwargs"} <= vars(server).keys()
    assert hasattr(web.AppRunner, "_make_server")


def test_the_seam_uses_exactly_these_names() -> None:
    seen = private_names(SEAM) & (of_aiohttp() | CONNECTION_NAMES)
    assert seen - {"_loop", "_kwargs"} == CONNECTION_NAMES


@pytest.mark.parametrize(
    "name", ["connection_limit.py", "write_buffers.py", "fast_path/connection.py"]
)
def test_no_other_protocol_uses_a_private_name_of_aiohttp(name: str) -> None:
    assert not private_names(HTTP / name) & of_aiohttp()
