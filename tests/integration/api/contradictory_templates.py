"""Pod templates of pools whose fields contradict each other, each with the words that its rejection must contain."""

from tests.integration.api.cases import Bad

BY_RULE = [
    Bad(
        "reserved-label",
        {"template": {"labels": {"penstock.dev/pool-uid": "x"}}},
        ("template.labels", "penstock.dev/pool-uid", "do not begin with penstock.dev/"),
    ),
    Bad(
        "reserved-annotation",
        {"template": {"annotations": {"app.kubernetes.io/name": "x"}}},
        ("template.annotations", "app.kubernetes.io/name", "do not begin with"),
    ),
    Bad(
        "bad-label-key",
        {"template": {"labels": {"a b": "x"}}},
        ("template.labels", "a b", "use name or prefix/name"),
    ),
    Bad(
        "bad-node-label",
        {"template": {"nodeSelector": {"-gpu": "x"}}},
        ("template.nodeSelector", "-gpu", "use name or prefix/name"),
    ),
    Bad(
        "reserved-env",
        {"template": {"container": {"env": [{"name": "PENSTOCK_POOL", "value": "x"}]}}},
        ("container.env[0]", "PENSTOCK_POOL", "does not begin with PENSTOCK_"),
    ),
    Bad(
        "env-with-two-values",
        {
            "template": {
                "container": {
                    "env": [
                        {
                            "name": "A",
                            "value": "x",
                            "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                        }
                    ]
                }
            }
        },
        ("container.env[0]", "env A", "keep one"),
    ),
    Bad(
        "env-from-nowhere",
        {"template": {"container": {"env": [{"name": "A", "valueFrom": {}}]}}},
        ("container.env[0].valueFrom", "neither", "set exactly one"),
    ),
    Bad(
        "reserved-mount",
        {
            "template": {
                "volumes": [{"name": "x", "emptyDir": {}}],
                "container": {"volumeMounts": [{"name": "x", "mountPath": "/etc/penstock/a"}]},
            }
        },
        ("volumeMounts[0]", "/etc/penstock/a", "choose one outside"),
    ),
    Bad(
        "mount-that-climbs",
        {
            "template": {
                "volumes": [{"name": "x", "emptyDir": {}}],
                "container": {"volumeMounts": [{"name": "x", "mountPath": "/a/../models"}]},
            }
        },
        ("volumeMounts[0]", "/a/../models", "use a path without"),
    ),
    Bad(
        "sub-path-that-climbs",
        {
            "template": {
                "volumes": [{"name": "x", "emptyDir": {}}],
                "container": {
                    "volumeMounts": [{"name": "x", "mountPath": "/a", "subPath": "../b"}]
                },
            }
        },
        ("volumeMounts[0].subPath", "../b", "relative path without .."),
    ),
    Bad(
        "mount-of-no-volume",
        {"template": {"container": {"volumeMounts": [{"name": "lost", "mountPath": "/a"}]}}},
        ("spec.template", "lost", "add the volume, or remove the mount"),
    ),
    Bad(
        "volume-with-two-sources",
        {"template": {"volumes": [{"name": "x", "emptyDir": {}, "secret": {"secretName": "s"}}]}},
        ("volumes[0]", "volume x sets 2", "set exactly one"),
    ),
    Bad(
        "reserved-volume",
        {"template": {"volumes": [{"name": "penstock-settings", "emptyDir": {}}]}},
        ("volumes[0]", "penstock-settings", "does not begin with penstock-"),
    ),
    Bad(
        "device-among-resources",
        {"template": {"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}},
        ("resources.limits", "nvidia.com/gpu", "request devices in spec.accelerator"),
    ),
    Bad(
        "request-above-limit",
        {
            "template": {
                "container": {
                    "resources": {
                        "requests": {"cpu": 1, "memory": "2Gi"},
                        "limits": {"cpu": 2, "memory": "1024Mi"},
                    }
                }
            }
        },
        ("container.resources", "memory 2Gi > 1024Mi", "lower the request or raise the limit"),
    ),
    Bad(
        "node-requirement-without-values",
        {
            "template": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "gpu", "operator": "In"}]}
                            ]
                        }
                    }
                }
            }
        },
        ("matchExpressions[0]", "key gpu with operator In has 0 values", "need some"),
    ),
    Bad(
        "min-domains-of-a-preference",
        {
            "template": {
                "topologySpreadConstraints": [
                    {
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "maxSkew": 1,
                        "minDomains": 2,
                    }
                ]
            }
        },
        ("topologySpreadConstraints[0]", "minDomains 2", "ScheduleAnyway", "remove it"),
    ),
    Bad(
        "ids-of-the-platform-and-a-user",
        {"template": {"securityContext": {"ids": "Platform", "runAsUser": 1000, "fsGroup": 5}}},
        ("template.securityContext", "Platform", '["runAsUser", "fsGroup"]', "set ids Fixed"),
    ),
    Bad(
        "claim-of-no-kind",
        {"template": {"resourceClaims": [{"name": "gpu"}]}},
        ("resourceClaims[0]", "gpu sets neither", "set exactly one"),
    ),
    Bad(
        "claim-that-the-pod-lacks",
        {"template": {"container": {"resources": {"claims": [{"name": "gpu"}]}}}},
        ("spec.template", "resources.claims refers to", "gpu", "add the claim there"),
    ),
    Bad(
        "variable-with-a-field",
        {"template": {"container": {"env": [{"name": "PENSTOCK_DTYPE", "value": "float16"}]}}},
        ("container.env[0]", "PENSTOCK_DTYPE is reserved", "spec.generation and spec.model.dtype"),
    ),
    Bad(
        "toleration-of-any-value",
        {"template": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}},
        ("tolerations[0]", "value b", "remove it, or use Equal"),
    ),
    Bad(
        "toleration-of-no-key",
        {"template": {"tolerations": [{"value": "b"}]}},
        ("tolerations[0]", "operator Equal", "set key, or operator Exists"),
    ),
    Bad(
        "toleration-for-seconds-of-any-effect",
        {"template": {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]}},
        ("tolerations[0]", "tolerationSeconds 3", "NoExecute"),
    ),
]
