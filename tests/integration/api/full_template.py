"""A pod template in which every field is set."""

from tests.integration.api.cases import Object

SELECTOR: Object = {
    "matchLabels": {"penstock.dev/pool": "chat"},
    "matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}],
}
POD_TERM: Object = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": SELECTOR,
    "matchLabelKeys": ["pod-template-hash"],
    "namespaces": ["team-b"],
    "namespaceSelector": SELECTOR,
}
OTHER_POD_TERM: Object = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {"app": "noisy"}},
    "mismatchLabelKeys": ["tenant"],
}
POD_RULES: Object = {
    "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM, OTHER_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": POD_TERM},
        {"weight": 100, "podAffinityTerm": OTHER_POD_TERM},
    ],
}
NODE_TERM: Object = {
    "matchExpressions": [
        {"key": "gpu", "operator": "In", "values": ["h200", "h100"]},
        {"key": "cores", "operator": "Gt", "values": ["16"]},
        {"key": "spot", "operator": "DoesNotExist"},
    ],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}],
}
AFFINITY: Object = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "preference": NODE_TERM}
        ],
    },
    "podAffinity": POD_RULES,
    "podAntiAffinity": POD_RULES,
}

TEMPLATE: Object = {
    "labels": {"team": "a", "example.com/part": "b"},
    "annotations": {"example.com/note": "any text"},
    "nodeSelector": {"gpu": "h200"},
    "tolerations": [
        {
            "key": "gpu",
            "operator": "Equal",
            "value": "yes",
            "effect": "NoExecute",
            "tolerationSeconds": 60,
        }
    ],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [
        {
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "maxSkew": 1,
            "minDomains": 2,
            "labelSelector": SELECTOR,
            "matchLabelKeys": ["pod-template-hash"],
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
        }
    ],
    "schedulerName": "volcano",
    "runtimeClassName": "nvidia",
    "securityContext": {
        "ids": "Fixed",
        "runAsUser": 1000,
        "runAsGroup": 0,
        "fsGroup": 2000,
        "supplementalGroups": [3000],
    },
    "resourceClaims": [
        {"name": "own", "resourceClaimTemplateName": "gpu"},
        {"name": "shared", "resourceClaimName": "nic"},
    ],
    "priorityClassName": "inference",
    "serviceAccountName": "reader",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "claim", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "hidden"}},
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ],
    "container": {
        "env": [
            {"name": "PLAIN", "value": "1"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "k"}}},
            {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}},
        ],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch", "subPath": "a/b", "readOnly": False}
        ],
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": 2, "memory": "2Gi", "ephemeral-storage": "1.5Gi"},
            "claims": [{"name": "own", "request": "gpu"}, {"name": "shared"}],
        },
    },
}
