"""Builds the images and loads them onto the node; a step runs only when its inputs changed."""

import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.commands import CommandFailedError
from tests.support.cluster.envoy.binary import envoy_binary
from tests.support.cluster.images import base, load
from tests.support.cluster.images.builder import Buildah, Builder, Docker, docker_answers
from tests.support.cluster.images.recipes import (
    ENVOY,
    PROMETHEUS,
    RECIPES,
    Recipe,
    content_hash,
    project_file,
)
from tests.support.cluster.images.wheels import forget_wheels, wheelhouse, wheels_key
from tests.support.cluster.locks import locked
from tests.support.cluster.packages import debian, packaged
from tests.support.cluster.places import CHECKOUT, Places
from tests.support.cluster.progress import say

TAG = "dev"
KEPT_TAGS = 6
"""Newest builds of an image that stay on the node: pods of a running test may still use one."""
BASE_DOCKERFILE = 'FROM scratch\nADD base.tar /\nCMD ["python3"]\n'


@dataclass(frozen=True, slots=True)
class Build:
    """An image to build: its recipe, its name, and the base it stands on."""

    recipe: Recipe
    image: str
    based: str


def make_images(places: Places) -> dict[str, str]:
    """Build what changed and import it; return each image's name with the hash of its content as tag."""
    with locked(places, "images"):
        return _make(places)


def _make(places: Places) -> dict[str, str]:
    wanted = _wanted()
    present_images = load.images_on_node(places)
    absent = {recipe: image for recipe, image in wanted.items() if image not in present_images}
    if absent:
        builder = _builder(places)
        _build(places, builder, absent)
        _deliver(places, builder, absent)
    for recipe, image in wanted.items():
        load.tag(places, image, f"{recipe.repository}:{TAG}")
        _forget_older(places, recipe, image)
    return {recipe.name: image for recipe, image in wanted.items()}


def build_images(places: Places) -> None:
    """Build what no earlier run built, without a cluster; `make_images` then only brings it to the node."""
    with locked(places, "images"):
        if absent := unbuilt(places):
            _build(places, _builder(places), absent)


def unbuilt(places: Places) -> dict[Recipe, str]:
    """Return the images of this checkout that no earlier run brought to the node."""
    wanted = _wanted().items()
    return {recipe: image for recipe, image in wanted if image not in _made(places, recipe)}


def _wanted() -> dict[Recipe, str]:
    return {
        recipe: f"{recipe.repository}:{content_hash(recipe, base.base_hash())}"
        for recipe in RECIPES
    }


def _builder(places: Places) -> Builder:
    return Docker(places) if docker_answers() else Buildah(places)


def _build(places: Places, builder: Builder, absent: dict[Recipe, str]) -> None:
    """Build the images that the builder lacks."""
    debian.install(places, debian.IMAGE_PACKAGES)
    lacking = {recipe: image for recipe, image in absent.items() if not builder.has(image)}
    if not lacking:
        return
    with ThreadPoolExecutor(max_workers=2) as pool:
        archive = pool.submit(base.base_archive, places)
        based = f"localhost/penstock-base:{base.base_hash()}"
        contexts = {
            recipe: pool.submit(
                _context, places, recipe,
                with_wheels=not _has_packages(places, builder, recipe, based),
            )
            for recipe in lacking
        }  # fmt: skip
        _build_base(places, builder, based, archive.result())
        for recipe, image in lacking.items():
            context = contexts[recipe].result()
            _build_one(places, builder, Build(recipe, image, based), context)
            shutil.rmtree(context)


def _build_one(places: Places, builder: Builder, build: Build, context: Path) -> None:
    recipe, image, based = build.recipe, build.image, build.based
    dockerfile = CHECKOUT / recipe.dockerfile
    try:
        builder.build(image, dockerfile, context, based)
    except CommandFailedError:
        if not recipe.extras or any((context / wheels_folder(recipe)).iterdir()):
            raise
        say(f"the builder has no layer of packages any more: the {recipe.name} gets them again")
        _add_wheels(places, recipe, context)
        builder.build(image, dockerfile, context, based)
    if recipe.extras and builder.keeps_packages:
        _packages_record(places, recipe).write_text(_packages_layer(recipe, based))
        forget_wheels(places, recipe)


def wheels_folder(recipe: Recipe) -> Path:
    """Return the folder of a build context, next to the Dockerfile, whose wheels replace the package index."""
    return Path(recipe.dockerfile).parent / "wheels"


def _add_wheels(places: Places, recipe: Recipe, context: Path) -> None:
    folder = context / wheels_folder(recipe)
    shutil.copytree(wheelhouse(places, recipe), folder, copy_function=os.link, dirs_exist_ok=True)


def _has_packages(places: Places, builder: Builder, recipe: Recipe, based: str) -> bool:
    """Return whether a layer of the builder has the image's packages, so that their wheels need not be there again."""
    record = _packages_record(places, recipe)
    kept = builder.keeps_packages and record.exists()
    return not recipe.extras or (kept and record.read_text() == _packages_layer(recipe, based))


def _packages_record(places: Places, recipe: Recipe) -> Path:
    return places.images / f"{recipe.name}.packages"


def _packages_layer(recipe: Recipe, based: str) -> str:
    """Return what decides the layer: without its wheels the builder would install it from the package index."""
    dockerfile = hashlib.sha256((CHECKOUT / recipe.dockerfile).read_bytes()).hexdigest()[:12]
    return f"{based} {wheels_key(recipe)} {dockerfile}"


def _deliver(places: Places, builder: Builder, absent: dict[Recipe, str]) -> None:
    """Bring images from the builder to the node; their large layers stay in these two alone."""
    layout = places.images / "layout"
    load.drop_hollow(places, layout)
    for image in absent.values():
        builder.export(image, layout)
        load.load(places, layout, image)
        load.hollow(layout)
    newest = {image for recipe in RECIPES for image in _made(places, recipe)[:1]}
    load.keep_only(layout, newest | set(absent.values()))


def _build_base(places: Places, builder: Builder, image: str, archive: Path) -> None:
    if builder.has(image):
        return
    context = _empty(places.images / f"context-base.{os.getpid()}")
    (context / "Dockerfile").write_text(BASE_DOCKERFILE)
    (context / "base.tar").hardlink_to(archive)
    builder.build(image, context / "Dockerfile", context, None)
    shutil.rmtree(context)


def _context(places: Places, recipe: Recipe, *, with_wheels: bool) -> Path:
    """Gather a Dockerfile's context; all file times are zero, so that fresh clones share cached layers."""
    context = _empty(places.images / f"context-{recipe.name}.{os.getpid()}")
    for source in recipe.sources:
        _copy(CHECKOUT / source, context / source)
    if recipe is PROMETHEUS:
        shutil.copy(packaged.prometheus_program(places), context / "prometheus")
    if recipe is ENVOY:
        shutil.copy(envoy_binary(places), context / "envoy")
    if recipe.extras:
        (context / "pyproject.toml").write_text(project_file(recipe))
        (context / wheels_folder(recipe)).mkdir(parents=True)
    for path in [context, *context.rglob("*")]:
        os.utime(path, (0, 0))
    if with_wheels:
        _add_wheels(places, recipe, context)
    return context


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _forget_older(places: Places, recipe: Recipe, image: str) -> None:
    """Keep the newest builds on the node and in the builder, and remove older ones."""
    builds = [image, *(older for older in _made(places, recipe) if older != image)]
    _record(places, recipe).write_text("\n".join(builds[:KEPT_TAGS]))
    if builds[KEPT_TAGS:]:
        say(f"forgetting {len(builds[KEPT_TAGS:])} older builds of the {recipe.name}")
        present_images = load.images_on_node(places)
        load.remove(places, [older for older in builds[KEPT_TAGS:] if older in present_images])
        builder = _builder(places)
        for older in builds[KEPT_TAGS:]:
            builder.forget(older)
        load.remove_nameless(places)


def _record(places: Places, recipe: Recipe) -> Path:
    return places.images / f"{recipe.name}.made"


def _made(places: Places, recipe: Recipe) -> list[str]:
    """Return the kept builds of a recipe, the newest first."""
    file = _record(places, recipe)
    return file.read_text().split() if file.exists() else []


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
