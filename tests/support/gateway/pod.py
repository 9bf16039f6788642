"""A pod's client port, as a process: `python -m tests.support.gateway.pod ADDRESS PORT NAME [SLOWNESS [FOLDER]]`.

With the FOLDER of a certificate it serves TLS.

`POST /infer?ms=20` answers `{"pod": NAME, "bytes": N}` after a delay, times SLOWNESS, with `tenant=a` for that tenant, and its place in the order of arrival
as `X-Place`; `/events?count=3&ms=100` streams; `/headers`, or a POST of `/echo`, returns the request's headers; `/status/503` any status; `/seen` the number
of requests by path, `/peak` the most in flight at a time since the last such query. It prints `listening` once it does. At SIGTERM requests in flight end first, as a runtime's do.
"""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from penstock_api.certificates import ServerCertificate

NAME = web.AppKey("name", str)
SLOWNESS = web.AppKey("slowness", float)
SEEN = web.AppKey("seen", Counter[str])
IN_FLIGHT = web.AppKey("in_flight", list[int])
DRAIN_SECONDS = 60.0


async def infer(request: web.Request) -> web.Response:
    """Answer after `ms` milliseconds."""
    place = request.app[SEEN][request.path]
    body = await request.read()
    await asyncio.sleep(request.app[SLOWNESS] * float(request.query.get("ms", "0")) / 1000)
    tenant = request.query.get("tenant")
    answer = {"pod": request.app[NAME], "bytes": len(body)}
    of_tenant = {"X-Penstock-Tenant": tenant} if tenant else {}
    return web.json_response(answer, headers={"X-Place": str(place), **of_tenant})


async def events(request: web.Request) -> web.StreamResponse:
    """Stream `count` events, one every `ms` milliseconds."""
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    for number in range(int(request.query.get("count", "3"))):
        await stream.write(f"data: {number}\n\n".encode())
        await asyncio.sleep(float(request.query.get("ms", "100")) / 1000)
    await stream.write_eof()
    return stream


async def headers(request: web.Request) -> web.Response:
    """Return what arrived: the path and the headers."""
    fields = {name.lower(): value for name, value in request.headers.items()}
    return web.json_response({"path": request.raw_path, "headers": fields})


async def status(request: web.Request) -> web.Response:
    """Return the status in the path."""
    return web.Response(status=int(request.match_info["status"]), text=request.app[NAME])


async def seen(request: web.Request) -> web.Response:
    """Return how many other requests arrived, by path."""
    return web.json_response(request.app[SEEN])


async def peak(request: web.Request) -> web.Response:
    """Return the most requests that were in flight at a time since the last such query."""
    in_flight = request.app[IN_FLIGHT]
    most = max(in_flight)
    del in_flight[:-1]
    return web.json_response(most)


@web.middleware
async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count a request by its path."""
    if request.path in ("/seen", "/peak"):
        return await handler(request)
    request.app[SEEN][request.path] += 1
    in_flight = request.app[IN_FLIGHT]
    in_flight.append(in_flight[-1] + 1)
    try:
        return await handler(request)
    finally:
        in_flight.append(in_flight[-1] - 1)


async def main(
    address: str, port: int, name: str, slowness: str = "1", certificate: str = ""
) -> None:
    """Serve until SIGTERM."""
    app = web.Application(client_max_size=2**30, middlewares=[count])
    app[NAME] = name
    app[SLOWNESS] = float(slowness)
    in_flight: list[int] = [0]
    app[SEEN] = Counter()
    app[IN_FLIGHT] = in_flight
    app.router.add_get("/seen", seen)
    app.router.add_get("/peak", peak)
    app.router.add_post("/infer", infer)
    app.router.add_get("/events", events)
    app.router.add_post("/status/{status}", status)
    app.router.add_post("/echo", headers)
    app.router.add_get("/{any:.*}", headers)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=DRAIN_SECONDS)
    await runner.setup()
    tls = ServerCertificate(Path(certificate)).context if certificate else None
    await web.TCPSite(runner, address, port, ssl_context=tls).start()
    print("listening", flush=True)
    await stopping.wait()
    await runner.cleanup()


if __name__ == "__main__":
    address, port, name, *more = sys.argv[1:]
    asyncio.run(main(address, int(port), name, *more))
