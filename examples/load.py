"""Sends requests at a steady rate and prints how they ended: python load.py URL RATE SECONDS [CLIENTS].

Standard library only, so that it runs in any image with Python.
"""

import collections
import sys
import threading
import time
import urllib.error
import urllib.request

BODY = b'{"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": [1, 2, 3, 4, 5, 6, 7, 8]}]}'


def send(url: str) -> tuple[str, float]:
    """Send one request; return its status, or the name of the error, and its seconds."""
    begin = time.monotonic()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, BODY), timeout=30) as answer:
            answer.read()
            status = str(answer.status)
    except urllib.error.HTTPError as error:
        status = str(error.code)
    except OSError as error:
        status = type(error).__name__
    return status, time.monotonic() - begin


def main(url: str, rate: float, seconds: float, clients: int = 64) -> None:
    """Send `rate` requests a second for `seconds`, and print a line every 5 s."""
    outcomes: collections.Counter[str] = collections.Counter()
    latencies: list[float] = []
    turns = iter(range(int(rate * seconds)))
    lock = threading.Lock()
    begin = time.monotonic()

    def client() -> None:
        while True:
            with lock:
                turn = next(turns, None)
            if turn is None:
                return
            time.sleep(max(0.0, begin + turn / rate - time.monotonic()))
            status, latency = send(url)
            with lock:
                outcomes[status] += 1
                latencies.append(latency)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(5)
        with lock:
            recent, latencies[:] = sorted(latencies), []
        if recent:
            print(
                f"{time.monotonic() - begin:5.0f} s  {dict(outcomes)}  median {recent[len(recent) // 2]:.2f} s"
                f"  slowest {recent[-1]:.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:]))
