"""The operator's process ends, also where something in it will not."""

import os
import subprocess
import sys

STUBBORN = """
import asyncio, sys
from penstock_operator import __main__ as program

async def stays():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def run(config):
    run.task = asyncio.create_task(stays())
    await asyncio.sleep(0)
    {ends}

program.run, program.EXIT_SECONDS = run, 0.5
program.main()
"""
ENVIRON = {"PENSTOCK_NAMESPACE": "system", "PENSTOCK_DEFAULT_RUNTIME_IMAGE": "image:1"}


def test_a_task_that_will_not_end_keeps_no_process_alive_and_the_reason_is_told() -> None:
    environ = {key: one for key, one in os.environ.items() if not key.startswith("PENSTOCK_")}
    program = STUBBORN.format(ends="raise RuntimeError('the watch broke')")
    done = subprocess.run(
        (sys.executable, "-c", program),
        env=environ | ENVIRON, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the operator exits" in done.stderr + done.stdout
    assert "the watch broke" in done.stderr + done.stdout
