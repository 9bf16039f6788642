"""The check of class names finds a public name that two files define."""

from tests.audit.class_names import repeated


def test_a_public_name_in_two_files_is_found() -> None:
    files = [("a.py", "class Batch: ..."), ("b.py", "def f():\n    class Batch: ..."), ("c.py", "")]
    assert repeated(files) == {"Batch": ["a.py", "b.py"]}


def test_private_names_and_single_names_are_not() -> None:
    assert not repeated(
        [("a.py", "class _Batch: ...\nclass Pool: ..."), ("b.py", "class _Batch: ...")]
    )
