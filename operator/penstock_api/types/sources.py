"""`ModelSource`: files on a volume, a repository, an image, a bucket, or a Python factory."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from penstock_api.base import ApiModel
from penstock_api.types.fields import Image, Name, Quantity, rule, rules
from penstock_api.types.pod_template.container import ImagePullPolicy, KeySelector
from penstock_api.types.pod_template.volumes import LocalObjectReference

_PYTHON_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
_HUB_NAME = "[A-Za-z0-9][-A-Za-z0-9_.]{0,95}"

RelativePath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        pattern=r"^[^/].*$",
        json_schema_extra=rules(
            rule(
                "!self.split('/').exists(p, p == '..')",
                "path %s leaves the volume: use a relative path without ..",
                "self",
            )
        ),
    ),
]
"""Relative path of a file or directory, with `/` as separator."""


class SourceType(StrEnum):
    """Type of a model source."""

    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    HUGGING_FACE = "HuggingFace"
    IMAGE = "Image"
    S3 = "S3"
    MODULE = "Module"


class CacheType(StrEnum):
    """Lifetime of a downloaded model."""

    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    EPHEMERAL = "Ephemeral"


_MEMBERS_OF_TYPE = [
    rule(
        "has(self.claimName) == (self.type == 'PersistentVolumeClaim')",
        "cache.type is %s: set claimName if and only if type is PersistentVolumeClaim",
        "self.type",
    ),
    rule(
        "!has(self.sizeLimit) || self.type == 'Ephemeral'",
        "cache.sizeLimit %s is for type Ephemeral, but cache.type is %s: remove sizeLimit",
        "self.sizeLimit",
        "self.type",
    ),
]


class ModelCache(ApiModel):
    """Cache of a downloaded model: a union discriminated by `type`."""

    model_config = ConfigDict(json_schema_extra=rules(*_MEMBERS_OF_TYPE))
    type: CacheType
    """PersistentVolumeClaim is shared by all pods that mount it and outlives them; Ephemeral belongs to one pod."""
    claim_name: Name | None = None
    """For type PersistentVolumeClaim: a claim in the pool's namespace, mounted read-write."""
    size_limit: Quantity | None = None
    """For type Ephemeral: size limit on the node's disk; if unset, only the node limits it."""


class ClaimSource(ApiModel):
    """A program or a model directory on a PersistentVolumeClaim in the pool's namespace, mounted read-only."""

    claim_name: Name
    """Name of the PersistentVolumeClaim."""
    path: RelativePath
    """Relative path inside the volume: a program (`.pt2`, `.onnx` or OpenVINO `.xml`), or for any task but Tensor a Hugging Face
    directory (`config.json`, `tokenizer.json`, safetensors); `.` is the volume itself."""


class HuggingFaceSource(ApiModel):
    """A model repository on the Hugging Face Hub, or on the hub at `HF_ENDPOINT` in `template.container.env`."""

    repository: Annotated[
        str, Field(min_length=1, max_length=193, pattern=f"^{_HUB_NAME}(/{_HUB_NAME})?$")
    ]
    """`owner/name`."""
    revision: (
        Annotated[
            str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*$")
        ]
        | None
    ) = None
    """Branch, tag or commit; a branch may refer to a newer commit at a pod's next start; defaults to main."""
    path: RelativePath | None = None
    """Part of the repository to download: a directory, or for task Tensor a `.pt2`, `.onnx` or `.xml` file; defaults to all of it."""
    token_secret_ref: KeySelector | None = None
    """Key of a Secret in the pool's namespace with an access token; only the pods read it."""
    cache: ModelCache | None = None
    """Cache of the model, in the hub's layout; pods that share a cache download a model once. Defaults to Ephemeral without
    a size limit: every pod downloads the model at its start."""


class ImageSource(ApiModel):
    """An OCI image or artifact that the kubelet mounts read-only (Kubernetes 1.33, feature gate ImageVolume)."""

    reference: Image
    """The image, as in a container; pulled with `template.imagePullSecrets`."""
    pull_policy: ImagePullPolicy | None = None
    """As core/v1; defaults to Always for the tag latest, else IfNotPresent."""
    path: RelativePath | None = None
    """Path of the model in the image: a directory, or for task Tensor a `.pt2`, `.onnx` or `.xml` file; defaults to its root."""


class S3Source(ApiModel):
    """A bucket of an S3-compatible store."""

    bucket: Annotated[
        str, Field(min_length=3, max_length=63, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    ]
    """Name of the bucket."""
    prefix: RelativePath | None = None
    """Directory in the bucket, as a key prefix; defaults to the whole bucket."""
    path: RelativePath | None = None
    """Part of the prefix to download: a directory, or for task Tensor a `.pt2`, `.onnx` or `.xml` object; defaults to all of it."""
    endpoint: (
        Annotated[
            str, Field(min_length=8, max_length=512, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")
        ]
        | None
    ) = None
    """URL of the store; defaults to AWS."""
    region: (
        Annotated[str, Field(min_length=1, max_length=64, pattern="^[a-z0-9][-a-z0-9]*$")] | None
    ) = None
    """Region of the bucket; defaults to the value of `AWS_REGION` in `template.container.env`, if any."""
    credentials_secret_ref: LocalObjectReference | None = None
    """A Secret in the pool's namespace with the keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and optionally
    AWS_SESSION_TOKEN; only the pods read it; defaults to the credentials of the pod's ServiceAccount, or anonymous access."""
    cache: ModelCache | None = None
    """Cache of the model; pods that share a cache download a model once. Defaults to Ephemeral without a size limit: every
    pod downloads the model at its start."""


class ModuleSource(ApiModel):
    """A Python factory in the runtime image or on its PYTHONPATH."""

    factory: Annotated[
        str,
        Field(
            min_length=3,
            max_length=256,
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        ),
    ]
    """`package.module:function` in the runtime image, called with `arguments`."""
    arguments: (
        Annotated[
            dict[str, Annotated[str, Field(max_length=1024)]],
            Field(
                max_length=64,
                json_schema_extra=rules(
                    rule(
                        f"self.all(k, k.matches('{_PYTHON_NAME}'))",
                        "arguments %s are not Python names: use letters, digits and underscores",
                        f"self.filter(k, !k.matches('{_PYTHON_NAME}'))",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Passed to the factory as keyword arguments, all strings."""


_TYPE_IFF_MEMBER = [
    rule(
        f"has(self.{member}) == (self.type == '{kind}')",
        f"source.type is %s: set {member} if and only if type is {kind}",
        "self.type",
    )
    for kind, member in (
        ("PersistentVolumeClaim", "persistentVolumeClaim"),
        ("HuggingFace", "huggingFace"),
        ("Image", "image"),
        ("S3", "s3"),
        ("Module", "module"),
    )
]


class ModelSource(ApiModel):
    """Source of a model: a union discriminated by `type`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *_TYPE_IFF_MEMBER,
            rule(
                "self.type == oldSelf.type",
                "source.type is immutable: was %s, got %s; create another pool",
                "oldSelf.type",
                "self.type",
            ),
        )
    )
    type: SourceType
    """Type of the source, which is the name of the member that is set; immutable."""
    persistent_volume_claim: ClaimSource | None = None
    """For type PersistentVolumeClaim."""
    hugging_face: HuggingFaceSource | None = None
    """For type HuggingFace."""
    image: ImageSource | None = None
    """For type Image."""
    s3: S3Source | None = None
    """For type S3."""
    module: ModuleSource | None = None
    """For type Module."""

    @property
    def files(self) -> ClaimSource | HuggingFaceSource | ImageSource | S3Source | None:
        """The member of a source of files; None for a factory."""
        return self.persistent_volume_claim or self.hugging_face or self.image or self.s3

    @property
    def fetched(self) -> HuggingFaceSource | S3Source | None:
        """The member of a source that the pod downloads to a cache, or None."""
        return self.hugging_face or self.s3

    @property
    def member(self) -> str:
        """The API name of the member that is set, for messages."""
        members = (name for name in type(self).model_fields if name != "type")
        return next((to_camel(name) for name in members if getattr(self, name)), "type")
