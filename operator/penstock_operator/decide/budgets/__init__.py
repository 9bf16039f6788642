"""Division of device budgets between pools: quota requests in, grants out, for all pools of a budget together."""
