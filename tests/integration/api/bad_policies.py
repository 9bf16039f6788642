"""Invalid policy specs, each with the words that its rejection must contain."""

from tests.integration.api.cases import Bad

PRICE = {"name": "h100", "resourceName": "nvidia.com/gpu", "perHour": "2.50"}
SCHEDULE = {"name": "morning", "cron": "30 8 * * *", "durationMinutes": 60, "minReplicas": 2}


def priced(**changes: object) -> dict[str, object]:
    """Return a list of one price with these changes; None removes a field."""
    price = {key: value for key, value in {**PRICE, **changes}.items() if value is not None}
    return {"currency": "EUR", "prices": [price]}


BY_SCHEMA = [
    Bad("priority-too-high", {"priority": 2_000_000}, ("spec.priority", "2000000")),
    Bad("bound-of-no-replicas", {"bounds": {"replicas": {"max": 0}}}, ("replicas.max", "0")),
    Bad("bound-without-max", {"bounds": {"batchSize": {}}}, ("batchSize.max", "Required")),
    Bad(
        "bound-too-large",
        {"bounds": {"batchSize": {"max": 5000}}},
        ("batchSize.max", "5000", "4096"),
    ),
    Bad("queue-bound-of-zero", {"bounds": {"queueDepth": {"max": 0}}}, ("queueDepth.max", "0")),
    Bad(
        "image-twice",
        {"bounds": {"template": {"allowedImages": ["a/", "a/"]}}},
        ("allowedImages[1]", "Duplicate value", '"a/"'),
    ),
    Bad(
        "priority-class-in-capitals",
        {"bounds": {"template": {"priorityClassNames": ["High"]}}},
        ("priorityClassNames[0]", '"High"'),
    ),
    Bad(
        "prometheus-by-file",
        {"metrics": {"prometheus": {"url": "file:///etc/passwd"}}},
        ("prometheus.url", "file:///etc/passwd", "https?"),
    ),
    Bad(
        "prometheus-with-a-password",
        {"metrics": {"prometheus": {"url": "http://me:secret@prometheus:9090"}}},
        ("prometheus.url", "me:secret@", "https?"),
    ),
    Bad(
        "default-of-no-replicas",
        {"defaults": {"scaling": {"minReplicas": 0}}},
        ("defaults.scaling.minReplicas", "0"),
    ),
    Bad(
        "unknown-selector-operator",
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        ("matchExpressions[0].operator", '"Like"'),
    ),
    Bad("weight-bound-of-zero", {"bounds": {"weight": {"max": 0}}}, ("weight.max", "0")),
    Bad(
        "budget-of-no-resource",
        {"gpuBudgets": [{"resourceName": "gpu", "count": 4}]},
        ("gpuBudgets[0].resourceName", '"gpu"'),
    ),
    Bad(
        "budget-twice",
        {"gpuBudgets": [{"resourceName": "nvidia.com/gpu", "count": each} for each in (4, 5)]},
        ("gpuBudgets[1]", "Duplicate value", "nvidia.com/gpu"),
    ),
    Bad("negative-price", {"pricing": priced(perHour=-1)}, ("prices[0].perHour", "-1")),
    Bad("negative-text", {"pricing": priced(perHour="-2.5")}, ("prices[0].perHour", "-2.5")),
    Bad("price-in-words", {"pricing": priced(perHour="cheap")}, ("prices[0].perHour", "cheap")),
    Bad("price-of-nothing", {"pricing": priced(perHour=None)}, ("prices[0].perHour", "Required")),
    Bad(
        "price-of-a-gpu",
        {"pricing": priced(resourceName="gpu")},
        ("prices[0].resourceName", '"gpu"'),
    ),
    Bad(
        "currency-by-its-sign",
        {"pricing": {"currency": "$", "prices": [PRICE]}},
        ("pricing.currency", '"$"'),
    ),
    Bad(
        "price-twice",
        {"pricing": {"currency": "EUR", "prices": [PRICE, PRICE]}},
        ("prices[1]", "Duplicate value", "h100"),
    ),
    Bad(
        "schedule-with-seconds",
        {"schedules": [{**SCHEDULE, "cron": "0 30 8 * * MON"}]},
        ("schedules[0].cron", "0 30 8 * * MON"),
    ),
    Bad(
        "schedule-in-a-folder",
        {"schedules": [{**SCHEDULE, "timeZone": "../etc/passwd"}]},
        ("schedules[0].timeZone", "../etc/passwd"),
    ),
    Bad(
        "schedule-of-no-length",
        {"schedules": [{**SCHEDULE, "durationMinutes": 0}]},
        ("schedules[0].durationMinutes", "0"),
    ),
]

BY_RULE = [
    Bad(
        "budget-by-pool-labels",
        {
            "poolSelector": {"matchLabels": {"a": "b"}},
            "gpuBudgets": [{"resourceName": "nvidia.com/gpu", "count": 4}],
        },
        ("spec.poolSelector", "nvidia.com/gpu", "select by namespaceSelector"),
    ),
    Bad(
        "bounds-by-pool-labels",
        {"poolSelector": {"matchLabels": {"a": "b"}}, "bounds": {"replicas": {"max": 3}}},
        ("spec.poolSelector", "3", "select by namespaceSelector"),
    ),
    Bad(
        "default-batch-min-above-max",
        {"defaults": {"batching": {"size": {"min": 8, "max": 4}}}},
        ("defaults.batching.size", "size.min 8", "size.max 4", "lower min or raise max"),
    ),
    Bad(
        "default-replicas-min-above-max",
        {"defaults": {"scaling": {"minReplicas": 5, "maxReplicas": 2}}},
        ("defaults.scaling", "minReplicas 5", "maxReplicas 2", "raise maxReplicas"),
    ),
    Bad(
        "default-without-band",
        {"defaults": {"scaling": {"gpuUtilization": {"lowPercent": 80, "highPercent": 20}}}},
        ("gpuUtilization", "lowPercent 80", "highPercent 20", "leave a band"),
    ),
    Bad(
        "in-nothing",
        {"namespaceSelector": {"matchExpressions": [{"key": "tier", "operator": "In"}]}},
        ("matchExpressions[0]", "tier", "operator In", "no values: add some"),
    ),
    Bad(
        "exists-with-values",
        {
            "namespaceSelector": {
                "matchExpressions": [{"key": "tier", "operator": "Exists", "values": ["x"]}]
            }
        },
        ("matchExpressions[0]", "tier", "operator Exists", "remove them"),
    ),
    Bad(
        "bad-selector-key",
        {"namespaceSelector": {"matchLabels": {"a b": "x"}}},
        ("namespaceSelector.matchLabels", "a b", "use name or prefix/name"),
    ),
    Bad(
        "credentials-in-the-clear",
        {
            "metrics": {
                "prometheus": {
                    "url": "http://prometheus:9090",
                    "credentialsSecretRef": {"name": "reader"},
                }
            }
        },
        ("credentialsSecretRef", "http://prometheus:9090", "Secret reader", "use https"),
    ),
    Bad(
        "a-header-of-the-operators-own",
        {
            "metrics": {
                "prometheus": {"url": "https://p:9090", "headers": {"Authorization": "Bearer x"}}
            }
        },
        ("prometheus.headers", "Authorization", "credentialsSecretRef"),
    ),
    Bad(
        "a-header-that-is-no-name",
        {"metrics": {"prometheus": {"url": "https://p:9090", "headers": {"a b": "x"}}}},
        ("prometheus.headers", "a b", "letters, digits and dashes"),
    ),
]
