"""Who is calling: API keys, tenants, priorities and rates (docs/design/runtime.md#authentication)."""
