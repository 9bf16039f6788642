"""The law CapacityAtObjective: the cheapest replica count whose predicted latency meets the objective."""
