"""The operator's process exits, even if a task ignores its cancellation."""

import subprocess
import sys

from tests.support.environment import inherited

STUBBORN = """
import asyncio, sys
from penstock_operator import __main__ as program

async def never_ends():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def run(config):
    run.task = asyncio.create_task(never_ends())
    await asyncio.sleep(0)
    {ends}

program.run, program.EXIT_SECONDS = run, 0.5
program.main()
"""
ENVIRON = {"PENSTOCK_NAMESPACE": "system", "PENSTOCK_DEFAULT_RUNTIME_IMAGE": "image:1"}


def test_a_task_that_ignores_cancellation_does_not_keep_the_process_and_the_error_is_logged() -> (
    None
):
    program = STUBBORN.format(ends="raise RuntimeError('the watch broke')")
    done = subprocess.run(
        (sys.executable, "-c", program),
        env=inherited() | ENVIRON, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the operator exits" in done.stderr + done.stdout
    assert "the watch broke" in done.stderr + done.stdout
