"""Class name check of `make lint`: a public class name stands for one thing in operator and runtime."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def repeated(sources: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return the public class names that several files define, with these files; `sources`: names and texts."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for name, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(name)
    return {name: places for name, places in files.items() if len(places) > 1}


def main() -> None:
    """Print each repeated name; exit with 1 if there is one."""
    paths = sorted(path for top in ("operator", "runtime") for path in (ROOT / top).rglob("*.py"))
    names = repeated((str(path.relative_to(ROOT)), path.read_text()) for path in paths)
    for name, files in names.items():
        print(f"class {name} is defined by {' and '.join(files)}: name each for what it is")
    sys.exit(bool(names))


if __name__ == "__main__":
    main()
