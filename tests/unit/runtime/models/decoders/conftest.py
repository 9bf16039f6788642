"""A machine without OpenVINO, for the tests of what the runtime does then."""

import sys

import pytest

import penstock_runtime.models.decoders.openvino
from penstock_runtime.models import decoders

PACKAGE = penstock_runtime.models.decoders.openvino.__name__


@pytest.fixture
def without_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what was imported of OpenVINO and let no import find it; the end restores modules and attributes.

    An import that fails leaves the parent's attribute on a half-made package, which later tests would find.
    """
    monkeypatch.setattr(decoders, "openvino", decoders.openvino)
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openvino", None)
