"""The law CapacityAtObjective: the fewest replicas whose predicted latency meets the objective."""
