"""Other autoscalers, as laws: their documented rules at vendor defaults, over the same signals as ours.

None of them moves the batch cap: it stays at `cap`, or at the top of the envelope. What a baseline cannot see here
(its own sidecar's metrics, sub-tick sampling) is named in its module.
"""
