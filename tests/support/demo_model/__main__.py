"""`python -m tests.support.demo_model FOLDER` writes the demonstration model: a tiny Llama trained on corpus.txt."""

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Train the model; print the number of steps and the last loss."""
    parser = argparse.ArgumentParser(prog="tests.support.demo_model", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the model")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="limit of the processor time of the training"
    )
    options = parser.parse_args()
    from tests.support.demo_model.train import make_demo_model

    steps, loss = make_demo_model(options.folder, options.seconds)
    sys.stdout.write(f"{options.folder}: {steps} steps, loss {loss:.3f}\n")


if __name__ == "__main__":
    main()
