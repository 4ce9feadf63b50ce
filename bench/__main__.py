"""`python -m bench [NAME ...]`: run benchmarks and print their figures."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = (
    "land",
    "latency",
    "scale",
    "recorder",
    "verify",
    "redaction",
    "detection",
    "integrity",
    "rolling",
    "curate",
    "gate",
    "deepscan",
)


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all. Each module has `main()`, which prints its figures."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark named {unknown[0]}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in names or NAMES:
        import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
