"""The gateway of a namespace: configures an Envoy that spreads the requests of pools over their pods."""
