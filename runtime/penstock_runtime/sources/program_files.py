"""`program_files`: the files of a program that is downloaded by its path."""

from pathlib import PurePosixPath


def program_files(path: str) -> tuple[str, ...]:
    """Return the path of the program and those of the weights next to it, which may be absent; empty for a directory."""
    match PurePosixPath(path).suffix:
        case ".pt2":
            return (path,)
        case ".onnx":
            return (path, f"{path}_data", f"{path}.data")
        case ".xml":
            return (path, f"{path.removesuffix('.xml')}.bin")
        case _:
            return ()
