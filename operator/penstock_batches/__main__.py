"""Entry point of the batch service; at SIGTERM it finishes the lines in flight and ends."""

import asyncio
import logging
import os
import signal
import sys

from penstock_api.log_format import log_to_stderr
from penstock_batches.config import BatchSettings
from penstock_batches.errors import BatchesConfigError
from penstock_batches.service import serving


def main() -> None:
    """Run, and exit with an error on wrong settings."""
    try:
        settings = BatchSettings.from_env(os.environ)
        log_to_stderr(settings.log_format, settings.log_level, _fields)
        asyncio.run(_run(settings))
    except BatchesConfigError as error:
        sys.exit(f"penstock-batches: {error}")


async def _run(settings: BatchSettings) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with serving(settings):
        await stopping.wait()


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: vars(record)[name] for name in ("port", "status_port") if name in vars(record)}


if __name__ == "__main__":
    main()
