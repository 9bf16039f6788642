"""The OpenVINO backend. Nothing imports it until a model on a CPU can use it."""

import sys

# Model conversion is not needed, and importing it reports the use of OpenVINO to its makers over the network.
sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
