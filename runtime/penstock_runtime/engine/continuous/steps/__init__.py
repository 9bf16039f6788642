"""Steps: plans and their results, the sampler's inputs, grammar masks, and the runners that execute plans."""
