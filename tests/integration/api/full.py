"""Objects in which every field of the API is set: two pools, since a source has one type, and a policy."""

from tests.integration.api.cases import (
    CLAIM,
    CLAIMED,
    EPHEMERAL,
    HUGGING_FACE,
    IMAGE,
    MODULE,
    S3,
    Object,
)
from tests.integration.api.full_template import TEMPLATE

TIME = "2026-01-01T00:00:00Z"

LIVE: Object = {
    "objectives": [{"metric": "RequestLatency", "milliseconds": 1000, "percent": "99.5"}],
    "batching": {
        "mode": "Recommend",
        "size": {"min": 2, "max": 32},
        "maxQueueDelayMilliseconds": 5,
        "maxQueueDepth": 2048,
        "discipline": "EarliestDeadlineFirst",
        "preemption": "TimeSlice",
        "maxBatchedTokens": 1024,
    },
    "scaling": {
        "mode": "Hold",
        "algorithm": "UtilizationBand",
        "minReplicas": 1,
        "maxReplicas": 8,
        "gpuUtilization": {"lowPercent": 50, "highPercent": 90},
        "queueDepth": {"targetPerReplica": 4},
        "scaleDown": {"stabilizationSeconds": 300, "maxPercentPerMinute": 25},
    },
}

MODULE_SPEC: Object = {
    "replicas": 2,
    "model": {
        "name": "served-name",
        "backend": "Auto",
        "source": {
            "type": "Module",
            "module": {**MODULE["module"], "arguments": {"features": "8"}},
        },
    },
    "runtime": {
        "image": "localhost/penstock-runtime:dev",
        "imagePullPolicy": "IfNotPresent",
        "log": {"level": "Warning", "format": "Json", "access": "Enabled"},
        "http": {
            "maxBodySize": "128Mi",
            "maxRequestMemory": 1073741824,
            "bodyTimeoutSeconds": 30,
            "connectionAgeSeconds": 60,
            "metrics": "Disabled",
            "trustedProxies": ["10.0.0.0/8", "fd00::/8"],
        },
    },
    "accelerator": {"resourceName": "nvidia.com/gpu", "count": 2},
    "parallelism": {"data": 2},
    "rollout": {"strategy": "Replace"},
    "drain": {"deadlineSeconds": 120, "relaySeconds": 600},
    "tls": {"secretRef": {"name": "chat-tls"}},
    "apiKeys": {"secretRef": {"name": "chat-keys", "key": "keys.json"}},
    "template": TEMPLATE,
    "service": {
        "type": "LoadBalancer",
        "annotations": {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"},
        "loadBalancerClass": "service.k8s.aws/nlb",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "externalTrafficPolicy": "Local",
        "nodePort": 30080,
    },
    "routing": {"mode": "Service"},
    "weight": 100,
    "batchWork": {"maxReplicas": 2, "deadlineSeconds": 21600},
    **LIVE,
}

CLAIM_SPEC: Object = {**MODULE_SPEC, "model": {"task": "Tensor", "source": CLAIM}}

FETCHED_SPECS = tuple(
    {**MODULE_SPEC, "model": {"task": "Embedding", "source": source}}
    for source in (
        HUGGING_FACE,
        IMAGE,
        S3,
        {**HUGGING_FACE, "huggingFace": {**HUGGING_FACE["huggingFace"], "cache": EPHEMERAL}},
        {**S3, "s3": {**S3["s3"], "cache": CLAIMED}},
    )
)
GENERATION_SPEC: Object = {
    "replicas": 1,
    "model": {
        "task": "TextGeneration",
        "dtype": "BFloat16",
        "source": {"type": "HuggingFace", "huggingFace": {"repository": "owner/chat"}},
    },
    "generation": {
        "contextLength": 32768,
        "kvCache": {"size": "40Gi", "hostSize": "16Gi"},
        "maxSequences": 512,
        "maxRunSeconds": 120,
        "computeBackend": "Torch",
    },
    "accelerator": {"resourceName": "nvidia.com/gpu", "count": 4},
    "parallelism": {"tensor": 2, "pipeline": 2, "nodes": 1},
}
SHARE_SPEC: Object = {**GENERATION_SPEC, "generation": {"kvCache": {"freeMemoryPercent": 60}}}
ZERO_SPEC: Object = {
    **GENERATION_SPEC,
    "routing": {"mode": "Gateway"},
    "scaling": {
        "mode": "Auto",
        "minReplicas": 0,
        "maxReplicas": 4,
        "scaleToZero": {"idleSeconds": 300, "maxHoldSeconds": 600, "maxHeldRequests": 1000},
    },
}
VARIANTS_SPEC: Object = {
    **GENERATION_SPEC,
    "accelerator": {"count": 0},
    "parallelism": {"tensor": 1},
    "variants": [
        {
            "name": "h100",
            "accelerator": {"resourceName": "nvidia.com/gpu", "count": 2},
            "parallelism": {"tensor": 2, "pipeline": 1, "nodes": 1},
            "minReplicas": 1,
            "maxReplicas": 4,
        },
        {
            "name": "cpu",
            "accelerator": {"count": 0},
            "runtime": {"image": "localhost/penstock-runtime:cpu", "imagePullPolicy": "Always"},
            "generation": GENERATION_SPEC["generation"],
            "template": {
                "nodeSelector": {"pool": "cpu"},
                "tolerations": TEMPLATE["tolerations"],
                "schedulerName": "default-scheduler",
                "runtimeClassName": "kata",
                "priorityClassName": "low",
                "container": {
                    "env": TEMPLATE["container"]["env"],
                    "resources": TEMPLATE["container"]["resources"],
                },
            },
        },
        {
            "name": "small",
            "generation": {"kvCache": {"freeMemoryPercent": 60}},
            "parallelism": {"data": 2},
        },
    ],
}
POOL_SPECS = (
    MODULE_SPEC,
    CLAIM_SPEC,
    *FETCHED_SPECS,
    GENERATION_SPEC,
    SHARE_SPEC,
    ZERO_SPEC,
    VARIANTS_SPEC,
)

CONDITION: Object = {
    "type": "Ready",
    "status": "True",
    "reason": "Serving",
    "message": "2 of 2 pods are Ready",
    "observedGeneration": 1,
    "lastTransitionTime": TIME,
}

POOL_STATUS: Object = {
    "observedGeneration": 1,
    "replicas": 2,
    "readyReplicas": 2,
    "readyReplicasOf": "2/3",
    "desiredReplicas": 3,
    "model": "served-name",
    "url": "http://good.team-a.svc:8000",
    "prometheusUrl": "http://prometheus.monitoring:9090",
    "scalingMode": "Auto",
    "unsetScalingMode": "ByTarget",
    "effective": [
        {"field": "scaling.maxReplicas", "value": "4", "origin": "Bound prod"},
        {"field": "objectives.RequestLatency", "value": "500 ms for 99 %", "origin": "Spec"},
    ],
    "selector": "penstock.dev/pool-uid=0000",
    "template": {"image": "localhost/penstock-runtime@sha256:00", "revision": "good-penstock-1"},
    "accelerators": [{"resourceName": "nvidia.com/gpu", "used": 2}],
    "batch": {"cap": 16, "recommendedCap": 20, "generation": 2**40, "acknowledgedPods": 2},
    "policies": [{"name": "prod", "generation": 3}],
    "bounded": [
        {"field": "spec.scaling.maxReplicas", "asked": "8", "granted": "4", "policy": "prod"}
    ],
    "conditions": [CONDITION],
    "variants": [
        {
            "name": "h100",
            "replicas": 2,
            "readyReplicas": 1,
            "cap": 16,
            "rowsPerSecondPerReplica": "52.5",
            "perReplicaHour": "2.50",
            "reason": "SomeReplicasReady",
        }
    ],
    "variantReplicas": "h100 1/2",
    "modelBackend": {
        "name": "OpenVINO",
        "pods": 2,
        "batchSizes": [1, 8],
        "candidates": [
            {"name": "OpenVINO", "rowsPerSecond": ["9.5", "70"], "greatestError": "1e-7"},
            {"name": "Compile", "message": "there is no compiler"},
            {"name": "Torch", "meanError": "1e-3", "equalTokensPercent": "99.5"},
        ],
    },
    "scaling": {
        "source": "Prometheus",
        "demandSource": "Gateway",
        "heldRequests": 3,
        "lastStart": {
            "decisionSeconds": "0.26",
            "schedulingSeconds": "0.05",
            "containerSeconds": "1.90",
            "modelSeconds": "9.31",
            "endpointSeconds": "0.01",
            "firstByteSeconds": "0.06",
        },
        "batchWork": {
            "linesLeft": 5000,
            "linesPerSecond": "20.50",
            "replicas": "0.34",
            "addedReplicas": 1,
        },
        "prometheusUrl": "http://prometheus.monitoring:9090",
        "dutySource": "EngineBusyShare",
        "signalAgeSeconds": "2.5",
        "gpuUtilizationPercent": "71.2",
        "waiting": "12",
        "rowsPerSecond": "103.4",
        "batchP99Milliseconds": "210.0",
        "batchTimeTargetMilliseconds": "447.75",
        "forecastRowsPerSecond": "120.5",
        "curve": {
            "interceptMilliseconds": "40.1",
            "millisecondsPerRow": "5.02",
            "rSquared": "0.98",
            "meanRows": "12.5",
            "largestRows": "16.0",
        },
        "plannedCap": 20,
        "rowsPerSecondPerReplica": "142.0",
        "effectiveUtilizationPercent": "72.8",
        "utilizationTargetPercent": "80.0",
        "imbalance": "1.08",
        "predictedP99Milliseconds": "640.0",
        "onTimePercent": "99.4",
        "startupP90Seconds": "61.0",
        "capTerm": "Objective",
        "replicasTerm": "Forecast",
        "boundBy": "GpuBudget",
        "holdUntil": TIME,
    },
    "lastDecision": {
        "time": TIME,
        "algorithm": "UtilizationBand",
        "cap": 20,
        "replicas": 3,
        "capTerm": "LowDuty",
        "replicasTerm": "QueueDepth",
        "acted": "Acted",
        "boundBy": "MaxReplicas",
        "holdUntil": TIME,
        "asked": [{"term": "Forecast", "replicas": "2.61"}],
        "alternatives": [
            {
                "replicas": 2,
                "cap": 20,
                "accelerators": 2,
                "utilizationPercent": "91.0",
                "predictedP99Milliseconds": "1400.0",
                "verdict": "MissesObjective",
            }
        ],
        "message": "12 waiting on 2 replicas, target 4",
    },
}

POOL_STATUS["candidate"] = {
    "policy": "prod",
    "generation": 3,
    "cap": 24,
    "replicas": 2,
    "actualReplicas": 3,
    "replicasTerm": "Forecast",
    "replicaHours": "4.25",
    "actualReplicaHours": "6.50",
}

POOL_STATUS["cost"] = {
    "currency": "EUR",
    "perHour": "7.50",
    "perDay": "180.00",
    "perReplicaHour": "2.50",
    "perThousandRequests": "0.2083",
    "perMillionTokens": "1.042",
    "batchWorkPercent": "25.0",
    "batchWorkPerHour": "1.57",
    "message": "3 pods at 2.50 EUR: nvidia.com/gpu 1 x 2.50 (h100); prices of policy prod",
}

DEFAULTS: Object = {
    "objectives": LIVE["objectives"],
    "scaling": {key: value for key, value in LIVE["scaling"].items() if key != "mode"},
    "batching": {key: value for key, value in LIVE["batching"].items() if key != "mode"},
}

POLICY_SPEC: Object = {
    "priority": 100,
    "namespaceSelector": {
        "matchLabels": {"tier": "prod"},
        "matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}],
    },
    "defaults": DEFAULTS,
    "bounds": {
        "replicas": {"max": 32},
        "batchSize": {"max": 256},
        "queueDepth": {"max": 8192},
        "weight": {"max": 200},
        "template": {
            "allowedImages": ["registry.example/"],
            "serviceAccountNames": [],
            "priorityClassNames": ["inference"],
            "runtimeClassNames": ["nvidia"],
            "schedulerNames": [],
        },
        "service": {"allowedTypes": ["LoadBalancer"], "allowedAnnotations": ["cloud.google.com/"]},
    },
    "gpuBudgets": [{"resourceName": "nvidia.com/gpu", "count": 64}],
    "rollback": {"mode": "OnObjectiveMiss", "windowSeconds": 600},
    "candidate": {
        "defaults": DEFAULTS,
        "bounds": {"replicas": {"max": 16}, "batchSize": {"max": 128}},
    },
    "schedules": [
        {
            "name": "morning",
            "cron": "30 8 * * MON-FRI",
            "durationMinutes": 90,
            "timeZone": "Europe/Berlin",
            "minReplicas": 4,
        }
    ],
    "pricing": {
        "currency": "EUR",
        "prices": [
            {
                "name": "h100",
                "resourceName": "nvidia.com/gpu",
                "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
                "perHour": "2.50",
            },
            {"name": "core", "resourceName": "cpu", "perHour": 0},
        ],
    },
    "metrics": {
        "prometheus": {
            "url": "https://prometheus.monitoring:9090",
            "caConfigMapRef": {"name": "prometheus-ca", "key": "ca.crt"},
            "credentialsSecretRef": {"name": "prometheus-reader"},
            "headers": {"X-Scope-OrgID": "team-a"},
        }
    },
}

NARROW_POLICY_SPEC: Object = {
    "poolSelector": {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "canary", "operator": "Exists", "values": []}],
    },
    "defaults": {"scaling": {"minReplicas": 2}},
}

POLICY_STATUS: Object = {
    "observedGeneration": 1,
    "matchedPools": 3,
    "budgets": [{"resourceName": "nvidia.com/gpu", "wanted": 7, "granted": 4, "used": 5}],
    "conditions": [
        {**CONDITION, "type": "Accepted"},
        {**CONDITION, "type": "Conflicted", "status": "False"},
        {**CONDITION, "type": "BudgetExhausted"},
    ],
}
