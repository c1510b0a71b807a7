"""How long `client.parse` takes: python -m benchmarks.parsing. CPU time, the least of several runs."""

from __future__ import annotations

import json
import time
import timeit
from typing import Any

from dualsql_client import DualResponseClient

NAMES = "id name city state enrollment tuition founded url".split()


def structure(rows: int) -> dict[str, Any]:
    """A structuredContent with so many rows of eight columns."""
    return {
        "results": [
            {
                "id": number,
                "name": f"University of {number}",
                "city": "東京",
                "state": "NJ",
                "enrollment": number * 7,
                "tuition": "12345.67",
                "founded": "1900-01-01",
                "url": f"https://u{number}.example.edu",
            }
            for number in range(rows)
        ],
        "resource": {"uri": "resource://q4T79hXv2ZkLwPmB7sYd1RcE0aKLOHLki", "name": "Universities"},
        "metadata": {
            "total_count": 10_000,
            "columns": [{"name": name, "type": "string", "encoding": "text"} for name in NAMES],
            "expires_at": "2999-01-01T00:00:00Z",
        },
    }


def cases() -> dict[str, Any]:
    """What is parsed, by what it is called; everything from "1 MB" on is that long as JSON."""
    typical, large = structure(15), structure(5_350)
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    messages = [message.copy() | {"content": [{"type": "text", "text": "x"}]} for _ in range(16_600)]
    return {
        "typical result": {"content": [{"type": "text", "text": "x" * 4_000}], "structuredContent": typical},
        "typical result, JSON": json.dumps(typical),
        "typical result, JSON in JSON": {"output": json.dumps({"text": json.dumps(typical)})},
        "1 MB of rows": {"structuredContent": large},
        "1 MB of rows, JSON": json.dumps(large),
        "1 MB of rows, JSON in JSON": {"output": json.dumps({"text": json.dumps(large)})},
        "1 MB of messages": [*messages, {"structuredContent": typical}],
        "1 MB of an ordinary result, JSON": json.dumps([{"id": n, "note": "y" * 80} for n in range(10_000)]),
    }


def seconds(value: object) -> float:
    """Of one call."""
    client = DualResponseClient()
    once = max(timeit.timeit(lambda: client.parse(value), number=1, timer=time.process_time), 1e-6)
    number = max(1, int(0.05 / once))
    runs = timeit.repeat(lambda: client.parse(value), number=number, repeat=9, timer=time.process_time)
    return min(runs) / number


def main() -> None:
    for name, value in cases().items():
        print(f"{name:<35}{seconds(value) * 1_000:>9.3f} ms")


if __name__ == "__main__":
    main()
