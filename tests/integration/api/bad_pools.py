"""Pool specs that the schema rejects, each with the words that its rejection must contain."""

from tests.integration.api.cases import CLAIM, HUGGING_FACE, Bad

GENERATING = {"task": "TextGeneration", "source": {**HUGGING_FACE, "module": None}}
BY_SCHEMA = [
    Bad("no-model", {"model": None}, ("spec.model", "Required")),
    Bad("no-source", {"model": {"source": None}}, ("spec.model.source", "Required")),
    Bad("unknown-source", {"model": {"source": {"type": "Ftp"}}}, ("source.type", '"Ftp"')),
    Bad(
        "factory-without-function",
        {"model": {"source": {"module": {"factory": "just.a.module"}}}},
        ("module.factory", '"just.a.module"'),
    ),
    Bad(
        "number-as-argument",
        {"model": {"source": {"module": {"arguments": {"features": 8}}}}},
        ("module.arguments.features", '"integer"', "string"),
    ),
    Bad(
        "absolute-path",
        {
            "model": {
                "source": {
                    **CLAIM,
                    "module": None,
                    "persistentVolumeClaim": {"claimName": "m", "path": "/m.pt2"},
                }
            }
        },
        ("persistentVolumeClaim.path", '"/m.pt2"'),
    ),
    Bad(
        "not-a-program",
        {
            "model": {
                "source": {
                    **CLAIM,
                    "module": None,
                    "persistentVolumeClaim": {"claimName": "m", "path": "m.safetensors"},
                }
            }
        },
        (
            "persistentVolumeClaim.path",
            "m.safetensors",
            "task Tensor",
            "a program (.pt2, .onnx or .xml) is for task Tensor",
        ),
    ),
    Bad(
        "backend-of-text-generation",
        {
            "model": {
                "task": "TextGeneration",
                "backend": "OpenVINO",
                "source": {**HUGGING_FACE, "module": None},
            }
        },
        ("spec.model.backend", "OpenVINO", "set spec.generation.computeBackend"),
    ),
    Bad(
        "unknown-backend",
        {"model": {"backend": "TensorRT"}},
        ("spec.model.backend", "TensorRT", "ONNXRuntime"),
    ),
    Bad(
        "program-of-a-text-task",
        {"model": {"task": "Embedding", "source": {**CLAIM, "module": None}}},
        ("persistentVolumeClaim.path", "resnet/model.pt2", "task Embedding", "a directory"),
    ),
    Bad(
        "text-task-without-a-directory",
        {"model": {"task": "Classification"}},
        (
            "spec.model.task",
            "Classification",
            "set source.type to PersistentVolumeClaim, HuggingFace",
        ),
    ),
    Bad("bad-model-name", {"model": {"name": "a b"}}, ("spec.model.name", '"a b"')),
    Bad("replicas-below-zero", {"replicas": -1}, ("spec.replicas", "-1")),
    Bad("replicas-too-many", {"replicas": 1001}, ("spec.replicas", "1001")),
    Bad("replicas-in-words", {"replicas": "three"}, ("spec.replicas", '"string"', "integer")),
    Bad("replicas-with-a-point", {"replicas": 1.5}, ("spec.replicas", "1.5", "integer")),
    Bad("image-with-a-space", {"runtime": {"image": "a b"}}, ("spec.runtime.image", '"a b"')),
    Bad(
        "unknown-pull-policy",
        {"runtime": {"imagePullPolicy": "Sometimes"}},
        ("imagePullPolicy", '"Sometimes"'),
    ),
    Bad(
        "accelerator-without-domain",
        {"accelerator": {"resourceName": "gpu"}},
        ("accelerator.resourceName", '"gpu"'),
    ),
    Bad("too-many-ranks", {"parallelism": {"tensor": 17}}, ("parallelism.tensor", "17")),
    Bad("too-many-stages", {"parallelism": {"pipeline": 17}}, ("parallelism.pipeline", "17")),
    Bad("too-many-engines", {"parallelism": {"data": 17}}, ("parallelism.data", "17")),
    Bad("too-many-devices", {"accelerator": {"count": 17}}, ("accelerator.count", "17")),
    Bad("unknown-rollout", {"rollout": {"strategy": "Canary"}}, ("strategy", '"Canary"')),
    Bad("no-time-to-drain", {"drain": {"deadlineSeconds": 0}}, ("deadlineSeconds", "0")),
    Bad(
        "unknown-metric",
        {"objectives": [{"metric": "Latency", "milliseconds": 5}]},
        ("spec.objectives[0].metric", '"Latency"'),
    ),
    Bad(
        "objective-of-tokens-without-text",
        {"objectives": [{"metric": "TimePerOutputToken", "milliseconds": 50}]},
        ("spec.objectives", "TextGeneration", "RequestLatency"),
    ),
    Bad(
        "objective-of-zero",
        {"objectives": [{"metric": "RequestLatency", "milliseconds": 0}]},
        ("spec.objectives[0].milliseconds", "0"),
    ),
    *(
        Bad(
            f"objective-for-{percent}-percent",
            {"objectives": [{"metric": "RequestLatency", "milliseconds": 5, "percent": percent}]},
            ("spec.objectives[0].percent", str(percent)),
        )
        for percent in (49, 100, 99.5, "99.95", "most")
    ),
    Bad(
        "objective-twice",
        {"objectives": [{"metric": "RequestLatency", "milliseconds": n} for n in (5, 6)]},
        ("spec.objectives[1]", "Duplicate value", "RequestLatency"),
    ),
    Bad("unknown-batching-mode", {"batching": {"mode": "On"}}, ("batching.mode", '"On"')),
    Bad("batch-of-none", {"batching": {"size": {"min": 0}}}, ("batching.size.min", "0")),
    Bad(
        "batch-too-large",
        {"batching": {"size": {"max": 9000}}},
        ("batching.size.max", "9000", "4096"),
    ),
    Bad(
        "delay-below-zero",
        {"batching": {"maxQueueDelayMilliseconds": -5}},
        ("maxQueueDelayMilliseconds", "-5"),
    ),
    Bad("no-queue", {"batching": {"maxQueueDepth": 0}}, ("maxQueueDepth", "0")),
    Bad(
        "unknown-discipline",
        {"batching": {"discipline": "LastInFirstOut"}},
        ("batching.discipline", '"LastInFirstOut"', '"FirstInFirstOut"'),
    ),
    Bad(
        "unknown-scaling-mode", {"scaling": {"mode": "auto"}}, ("scaling.mode", '"auto"', '"Auto"')
    ),
    Bad("scale-to-zero", {"scaling": {"minReplicas": 0}}, ("scaling.minReplicas", "0")),
    Bad(
        "percent-over-100",
        {"scaling": {"gpuUtilization": {"highPercent": 101}}},
        ("highPercent", "101"),
    ),
    Bad(
        "bad-label-value",
        {"template": {"labels": {"team": "a b"}}},
        ("template.labels.team", '"a b"'),
    ),
    Bad(
        "bad-quantity",
        {"template": {"container": {"resources": {"requests": {"cpu": "lots"}}}}},
        ("resources.requests.cpu", '"lots"'),
    ),
    Bad(
        "negative-quantity",
        {"template": {"container": {"resources": {"limits": {"memory": -1}}}}},
        ("resources.limits.memory", "-1"),
    ),
    Bad(
        "bad-env-name",
        {"template": {"container": {"env": [{"name": "A-B", "value": "1"}]}}},
        ("container.env[0].name", '"A-B"'),
    ),
    Bad(
        "env-twice",
        {"template": {"container": {"env": [{"name": "A"}, {"name": "A"}]}}},
        ("container.env[1]", "Duplicate value", '"A"'),
    ),
    Bad(
        "root-as-user",
        {"template": {"securityContext": {"runAsUser": 0}}},
        ("template.securityContext.runAsUser", "0"),
    ),
    Bad(
        "skew-of-zero",
        {
            "template": {
                "topologySpreadConstraints": [
                    {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 0}
                ]
            }
        },
        ("topologySpreadConstraints[0].maxSkew", "0"),
    ),
    Bad("unknown-dtype", {"model": {"dtype": "Int4"}}, ("model.dtype", '"Int4"', '"BFloat16"')),
    Bad(
        "context-of-one-token",
        {"model": GENERATING, "generation": {"contextLength": 1}},
        ("generation.contextLength", "1", "greater than or equal to 2"),
    ),
    Bad(
        "all-of-the-memory",
        {"model": GENERATING, "generation": {"kvCache": {"freeMemoryPercent": 100}}},
        ("kvCache.freeMemoryPercent", "100", "95"),
    ),
    Bad(
        "unknown-log-level",
        {"runtime": {"log": {"level": "INFO"}}},
        ("runtime.log.level", '"INFO"', '"Info"'),
    ),
    Bad(
        "service-of-another-host",
        {"service": {"type": "ExternalName"}},
        ("service.type", '"ExternalName"', '"LoadBalancer"'),
    ),
    Bad(
        "bad-taint-effect",
        {"template": {"tolerations": [{"operator": "Exists", "effect": "Never"}]}},
        ("tolerations[0].effect", '"Never"'),
    ),
    Bad(
        "service-account-in-capitals",
        {"template": {"serviceAccountName": "Admin"}},
        ("template.serviceAccountName", '"Admin"'),
    ),
]
