"""Hand-over: a draining pod continues its generations on another pod, and relays their tokens to its clients."""
