"""From the published formats to those that the simulator reads. Pure."""

import csv
import io
from collections import Counter, defaultdict

HOUR_SECONDS = 3600
HEADER = ("time_bin", "avg_turns", "session_count", "frac_ge2", "frac_ge3")


def unchanged(content: bytes) -> bytes:
    """Return a file that the simulator reads as it is published."""
    return content


def hourly(content: bytes) -> bytes:
    """Return BurstGPT's requests as counts by hour: sessions, and requests of each on average.

    A request by API has no session and counts as one of its own, so that sessions times turns are the requests.
    """
    sessions: dict[int, Counter[str]] = defaultdict(Counter)
    rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig")))
    for number, row in enumerate(rows):
        hour = int(float(row["Timestamp"])) // HOUR_SECONDS
        sessions[hour][(row.get("Session ID") or "").strip() or f"request {number}"] += 1
    lines = [",".join(HEADER)]
    for hour, turns in sorted(sessions.items()):
        counts = list(turns.values())
        several = [sum(count >= least for count in counts) / len(counts) for least in (2, 3)]
        mean = sum(counts) / len(counts)
        lines.append(f"{hour * HOUR_SECONDS},{mean},{len(counts)},{several[0]},{several[1]}")
    return ("\n".join(lines) + "\n").encode()
