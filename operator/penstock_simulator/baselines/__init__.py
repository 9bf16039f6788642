"""Other autoscalers as control laws: their documented algorithms with the vendors' numbers, on the same signals.

None of them changes the batch cap: it stays at `cap`, or at the maximum of the envelope. Each module states which
inputs of the original are missing here (metrics of its own sidecar, sub-tick sampling).
"""
