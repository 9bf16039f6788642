"""`python -m penstock_runtime.demo_model FOLDER`: make the demo's model there."""

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Train and tell."""
    parser = argparse.ArgumentParser(prog="penstock_runtime.demo_model", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the model goes")
    parser.add_argument("--seconds", type=float, default=60.0, help="the longest it may train")
    given = parser.parse_args()
    from penstock_runtime.demo_model.train import make_demo_model  # noqa: PLC0415 - torch takes seconds; --help none

    steps, loss = make_demo_model(given.folder, given.seconds)
    sys.stdout.write(f"{given.folder}: {steps} steps, loss {loss:.3f}\n")


if __name__ == "__main__":
    main()
