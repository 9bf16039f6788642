"""The OpenVINO compute backend, imported only if a model on a CPU can use it."""

import sys

# Model conversion is not needed, and its import sends telemetry to the vendor over the network.
sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
