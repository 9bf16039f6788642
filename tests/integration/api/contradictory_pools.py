"""Pool specs whose fields contradict each other, each with the words that its rejection must contain."""

from tests.integration.api.cases import CLAIM, HUGGING_FACE, LONG_NAME, S3, Bad

GENERATING = {"task": "TextGeneration", "source": {**HUGGING_FACE, "module": None}}
BY_RULE = [
    Bad(
        "more-devices-than-are-used",
        {"accelerator": {"count": 2}},
        ("spec.accelerator.count", "accelerator.count 2 cannot be used", "set count 1"),
    ),
    Bad(
        "variants-at-zero",
        {
            "variants": [{"name": "a"}],
            "scaling": {"mode": "Auto", "minReplicas": 0},
            "routing": {"mode": "Gateway"},
        },
        ("spec.scaling.minReplicas", "minReplicas 0", "set it to 1 or more"),
    ),
    Bad(
        "variants-whose-minimums-exceed-the-maximum",
        {
            "variants": [{"name": "a", "minReplicas": 3}, {"name": "b", "minReplicas": 2}],
            "scaling": {"maxReplicas": 4},
        },
        ("spec.variants", "minReplicas are 5 together", "scaling.maxReplicas 4", "lower them"),
    ),
    Bad(
        "variant-whose-minimum-exceeds-its-maximum",
        {"variants": [{"name": "a", "minReplicas": 3, "maxReplicas": 2}]},
        ("variant a", "minReplicas 3 is above maxReplicas 2", "raise maxReplicas"),
    ),
    Bad(
        "variant-with-a-long-name",
        {"variants": [{"name": "b" * 40}, {"name": "ok"}]},
        ("spec.variants", "b" * 40, "more than 52 characters", "choose a shorter name"),
        metadata_name="a" * 20,
    ),
    Bad(
        "variant-of-several-nodes-with-a-long-name",
        {
            "model": GENERATING,
            "accelerator": {"count": 1},
            "variants": [{"name": "b" * 20, "parallelism": {"tensor": 2, "nodes": 2}}],
        },
        ("spec.variants", "b" * 20, "40 with parallelism.nodes", "choose a shorter name"),
        metadata_name="a" * 20,
    ),
    Bad(
        "variant-with-more-devices-than-it-uses",
        {
            "model": GENERATING,
            "accelerator": {"count": 2},
            "parallelism": {"tensor": 2},
            "variants": [
                {"name": "fits", "accelerator": {"count": 0}},
                {"name": "big", "accelerator": {"count": 4}},
            ],
        },
        ("spec.variants", 'variants ["big"]', "accelerator.count must be", "or 0 for the CPU"),
    ),
    Bad(
        "variant-with-too-many-labels-of-nodes",
        {
            "template": {"nodeSelector": {f"pool{number}": "" for number in range(30)}},
            "variants": [
                {"name": "same", "template": {"nodeSelector": {"pool1": "x", "a": "", "b": ""}}},
                {"name": "over", "template": {"nodeSelector": {"a": "", "b": "", "c": ""}}},
            ],
        },
        (
            "spec.variants",
            'variants ["over"]',
            "nodeSelector has more than 32 labels",
            "remove some",
        ),
    ),
    Bad(
        "variant-with-too-many-variables",
        {
            "template": {"container": {"env": [{"name": f"A{number}"} for number in range(64)]}},
            "variants": [
                {"name": "same", "template": {"container": {"env": [{"name": "A1"}]}}},
                {"name": "over", "template": {"container": {"env": [{"name": "B"}]}}},
            ],
        },
        (
            "spec.variants",
            'variants ["over"]',
            "container.env more than 64 variables",
            "remove some",
        ),
    ),
    Bad(
        "variant-that-generates-for-another-task",
        {"variants": [{"name": "a", "generation": {}}]},
        ("spec.variants", "for model.task TextGeneration", "remove generation"),
    ),
    Bad(
        "more-devices-than-ranks",
        {
            "model": GENERATING,
            "accelerator": {"count": 4},
            "parallelism": {"tensor": 2},
        },
        (
            "spec.accelerator.count",
            "accelerator.count 4",
            "devices, divided by parallelism.nodes, which is 2",
            "set both alike",
        ),
    ),
    Bad(
        "more-ranks-than-devices",
        {
            "model": GENERATING,
            "accelerator": {"count": 2},
            "parallelism": {"tensor": 2, "pipeline": 2},
        },
        (
            "spec.parallelism",
            "parallelism.tensor 2 times parallelism.pipeline 2",
            "accelerator.count is 2",
            "set both alike",
        ),
    ),
    Bad(
        "more-ranks-than-a-replica-may-have",
        {
            "model": GENERATING,
            "accelerator": {"count": 0},
            "parallelism": {"tensor": 8, "pipeline": 4},
        },
        ("spec.parallelism", "parallelism.tensor 8 times parallelism.pipeline 4", "exceeds 16"),
    ),
    Bad(
        "nodes-that-do-not-divide-the-ranks",
        {
            "model": GENERATING,
            "accelerator": {"count": 2},
            "parallelism": {"tensor": 4, "nodes": 3},
        },
        ("spec.parallelism.nodes", "parallelism.nodes 3 must divide", "tensor 4"),
    ),
    Bad(
        "more-ranks-than-devices-of-the-nodes",
        {
            "model": GENERATING,
            "accelerator": {"count": 1},
            "parallelism": {"tensor": 4, "nodes": 2},
        },
        ("spec.parallelism", "divided by parallelism.nodes 2", "accelerator.count is 1"),
    ),
    Bad(
        "groups-with-a-long-name",
        {
            "model": GENERATING,
            "accelerator": {"count": 2},
            "parallelism": {"tensor": 4, "nodes": 2},
        },
        ("metadata.name", "c" * 41, "parallelism.nodes 2", "choose a shorter name"),
        metadata_name="c" * 41,
    ),
    Bad(
        "nodes-of-a-model-that-generates-no-text",
        {"accelerator": {"count": 1}, "parallelism": {"data": 2, "nodes": 2}},
        ("spec.parallelism.nodes", "parallelism.nodes 2 must divide", "tensor 1"),
    ),
    Bad(
        "ranks-of-a-model-that-generates-no-text",
        {"accelerator": {"count": 2}, "parallelism": {"tensor": 2}},
        ("spec.parallelism", "model.task is unset", "set parallelism.data"),
    ),
    Bad(
        "more-engines-than-devices",
        {"accelerator": {"count": 2}, "parallelism": {"data": 4}},
        ("spec.parallelism", "parallelism.data 4", "accelerator.count is 2", "set both alike"),
    ),
    Bad(
        "several-engines-that-generate-text",
        {"model": GENERATING, "accelerator": {"count": 2}, "parallelism": {"data": 2}},
        ("spec.parallelism.data", "parallelism.data 2", "use more replicas"),
    ),
    Bad(
        "argument-that-is-no-name",
        {"model": {"source": {"module": {"arguments": {"max-rows": "8"}}}}},
        ("module.arguments", "max-rows", "use letters, digits and underscores"),
    ),
    Bad(
        "long-name",
        {},
        ("metadata.name", LONG_NAME, "at most 52", "choose a shorter"),
        metadata_name=LONG_NAME,
    ),
    Bad("dotted-name", {}, ("metadata.name", "a.b", "simpler name"), metadata_name="a.b"),
    Bad(
        "name-from-a-digit",
        {},
        ("metadata.name", "9lives", "begin with a letter"),
        metadata_name="9lives",
    ),
    Bad(
        "type-without-member",
        {"model": {"source": {"type": "PersistentVolumeClaim", "module": None}}},
        ("model.source", "is PersistentVolumeClaim", "set persistentVolumeClaim if and only if"),
    ),
    Bad(
        "member-of-another-type",
        {"model": {"source": {"persistentVolumeClaim": CLAIM["persistentVolumeClaim"]}}},
        ("model.source", "is Module", "set persistentVolumeClaim if and only if type is"),
    ),
    Bad(
        "repository-of-a-program-without-a-file",
        {"model": {"source": {**HUGGING_FACE, "module": None}}},
        (
            "huggingFace.path",
            "onnx",
            "task Tensor",
            "a program (.pt2, .onnx or .xml) is for task Tensor",
        ),
    ),
    Bad(
        "bucket-of-a-text-task-with-a-program",
        {
            "model": {
                "task": "Embedding",
                "source": {**S3, "module": None, "s3": {**S3["s3"], "path": "m.pt2"}},
            }
        },
        ("s3.path", "m.pt2", "task Embedding", "a directory"),
    ),
    Bad(
        "ephemeral-cache-on-a-claim",
        {
            "model": {
                "task": "Embedding",
                "source": {
                    **HUGGING_FACE,
                    "module": None,
                    "huggingFace": {
                        "repository": "owner/minilm",
                        "cache": {"type": "Ephemeral", "claimName": "cache"},
                    },
                },
            }
        },
        ("huggingFace.cache", "is Ephemeral", "set claimName if and only if type is"),
    ),
    Bad(
        "size-limit-of-a-claim",
        {
            "model": {
                "task": "Embedding",
                "source": {
                    **HUGGING_FACE,
                    "module": None,
                    "huggingFace": {
                        "repository": "owner/minilm",
                        "cache": {
                            "type": "PersistentVolumeClaim",
                            "claimName": "cache",
                            "sizeLimit": "1Gi",
                        },
                    },
                },
            }
        },
        ("huggingFace.cache", "sizeLimit 1Gi is for type Ephemeral", "remove sizeLimit"),
    ),
    Bad(
        "path-that-climbs",
        {
            "model": {
                "source": {
                    **CLAIM,
                    "module": None,
                    "persistentVolumeClaim": {"claimName": "m", "path": "a/../m.pt2"},
                }
            }
        },
        ("persistentVolumeClaim.path", "a/../m.pt2", "relative path without .."),
    ),
    Bad(
        "batch-min-above-max",
        {"batching": {"size": {"min": 8, "max": 4}}},
        ("batching.size", "size.min 8", "size.max 4", "lower min or raise max"),
    ),
    Bad(
        "replicas-min-above-max",
        {"scaling": {"minReplicas": 9, "maxReplicas": 3}},
        ("spec.scaling", "minReplicas 9", "maxReplicas 3", "raise maxReplicas"),
    ),
    Bad(
        "no-band",
        {"scaling": {"gpuUtilization": {"lowPercent": 90, "highPercent": 90}}},
        ("gpuUtilization", "lowPercent 90", "highPercent 90", "leave a band"),
    ),
    Bad(
        "body-of-no-size",
        {"runtime": {"http": {"maxBodySize": 100}}},
        ("runtime.http.maxBodySize", "maxBodySize 100", "from 1Ki to 1Ti", "such as Mi"),
    ),
    Bad(
        "body-too-large",
        {"runtime": {"http": {"maxBodySize": "2Ti"}}},
        ("runtime.http.maxBodySize", "maxBodySize 2Ti", "from 1Ki to 1Ti"),
    ),
    Bad(
        "proxies-that-are-no-network",
        {"runtime": {"http": {"trustedProxies": ["10.0.0.0/8", "10.0.0.1/8"]}}},
        ("trustedProxies[1]", "network 10.0.0.1/8", "without host bits"),
    ),
    Bad(
        "proxies-that-are-no-address",
        {"runtime": {"http": {"trustedProxies": ["gateway"]}}},
        ("trustedProxies[0]", "network gateway", "write it as 10.0.0.0/8"),
    ),
    Bad(
        "generation-of-another-task",
        {"generation": {"contextLength": 4096}},
        ("spec.generation", "model.task is unset", "remove spec.generation"),
    ),
    Bad(
        "int8-of-text-generation",
        {"model": {**GENERATING, "dtype": "Int8"}},
        ("spec.model.dtype", "dtype Int8", "TextGeneration", "BFloat16"),
    ),
    Bad(
        "cache-of-two-sizes",
        {
            "model": GENERATING,
            "generation": {"kvCache": {"size": "1Gi", "freeMemoryPercent": 50}},
        },
        ("generation.kvCache", "size 1Gi", "freeMemoryPercent 50", "keep one"),
    ),
    Bad(
        "cache-too-small",
        {"model": GENERATING, "generation": {"kvCache": {"size": "1m"}}},
        ("generation.kvCache.size", "kvCache.size 1m", "from 1Ki to 1Pi"),
    ),
    Bad(
        "source-ranges-of-an-internal-service",
        {"service": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}},
        ("spec.service", "loadBalancerSourceRanges is for type", "ClusterIP", "set that type"),
    ),
    Bad(
        "node-port-of-a-headless-service",
        {"service": {"type": "Headless", "nodePort": 30080}},
        ("spec.service", "nodePort is for type", "type is Headless", "remove it"),
    ),
    Bad(
        "reserved-annotation-of-the-service",
        {"service": {"annotations": {"penstock.dev/applied": "x"}}},
        ("service.annotations", "penstock.dev/applied", "do not begin with"),
    ),
    Bad(
        "zero-without-a-gateway",
        {"scaling": {"mode": "Auto", "minReplicas": 0}},
        (
            "spec.scaling.minReplicas",
            "minReplicas 0 needs",
            "routing.mode Gateway",
            "Auto and unset",
        ),
    ),
    Bad(
        "zero-that-no-law-leaves",
        {"scaling": {"mode": "Hold", "minReplicas": 0}, "routing": {"mode": "Gateway"}},
        ("spec.scaling.minReplicas", "Hold and Gateway", "set them, or minReplicas 1"),
    ),
    Bad(
        "gateway-with-a-headless-service",
        {"routing": {"mode": "Gateway"}, "service": {"type": "Headless"}},
        ("spec.routing.mode", "service.type Headless", "use another type"),
    ),
]
