"""A bare aiohttp handler with a batcher (argument `batched`), or without (`naive`)."""

import asyncio
import sys

import orjson
import torch
from aiohttp import web
from tiny_mlp import network

MODEL = network()
MAX_BATCH = 64
waiting: list[tuple[asyncio.Future, list[float]]] = []


def answer(row):
    tensor = {"name": "Y", "datatype": "FP32", "shape": [1, 16], "data": row}
    body = orjson.dumps({"model_name": "mlp", "model_version": "1", "outputs": [tensor]})
    return web.Response(body=body, content_type="application/json")


async def naive(request):
    row = (await request.json())["inputs"][0]["data"]
    with torch.inference_mode():
        return answer(MODEL(torch.tensor([row])).tolist()[0])


async def batched(request):
    row = orjson.loads(await request.read())["inputs"][0]["data"]
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    if not waiting:
        loop.call_soon(flush)
    waiting.append((future, row))
    return answer(await future)


def flush():
    batch = waiting[:MAX_BATCH]
    del waiting[:MAX_BATCH]
    with torch.inference_mode():
        rows = MODEL(torch.tensor([row for _, row in batch])).tolist()
    for (future, _), row in zip(batch, rows):
        if not future.done():
            future.set_result(row)
    if waiting:
        asyncio.get_running_loop().call_soon(flush)


app = web.Application()
app.router.add_post("/v2/models/mlp/infer", {"naive": naive, "batched": batched}[sys.argv[2]])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
