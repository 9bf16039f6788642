"""Builds the images and loads them onto the node; a step runs only when its inputs changed."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.cluster import debian
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
from tests.support.cluster.images.wheels import wheelhouse
from tests.support.cluster.locks import locked
from tests.support.cluster.places import CHECKOUT, Places
from tests.support.cluster.progress import say

TAG = "dev"
KEPT_TAGS = 6
"""Newest builds of an image that stay on the node: pods of a running test may still use one."""
BASE_DOCKERFILE = 'FROM scratch\nADD base.tar /\nCMD ["python3"]\n'


def make_images(places: Places) -> dict[str, str]:
    """Build what changed and import it; return each image's name with the hash of its content as tag."""
    with locked(places, "images"):
        return _make(places)


def _make(places: Places) -> dict[str, str]:
    wanted = {
        recipe: f"{recipe.repository}:{content_hash(recipe, base.base_hash())}"
        for recipe in RECIPES
    }
    present_images = load.images_on_node(places)
    absent = {recipe: image for recipe, image in wanted.items() if image not in present_images}
    if absent:
        _build(places, absent)
    for recipe, image in wanted.items():
        load.tag(places, image, f"{recipe.repository}:{TAG}")
        _forget_older(places, recipe, image)
    return {recipe.name: image for recipe, image in wanted.items()}


def _build(places: Places, absent: dict[Recipe, str]) -> None:
    builder: Builder = Docker(places) if docker_answers() else Buildah(places)
    debian.install(places, debian.IMAGE_PACKAGES)
    with ThreadPoolExecutor(max_workers=2) as pool:
        archive = pool.submit(base.base_archive, places)
        contexts = {recipe: pool.submit(_context, places, recipe) for recipe in absent}
        based = f"localhost/penstock-base:{base.base_hash()}"
        _build_base(places, builder, based, archive.result())
        for recipe, image in absent.items():
            context = contexts[recipe].result()
            builder.build(image, CHECKOUT / recipe.dockerfile, context, based)
            layout = places.images / "layout"
            builder.export(image, layout)
            load.load(places, layout, image)
            shutil.rmtree(context)
        load.keep_only(
            layout,
            {image for recipe in RECIPES for image in _made(places, recipe)[:1]}
            | set(absent.values()),
        )


def _build_base(places: Places, builder: Builder, image: str, archive: Path) -> None:
    if builder.has(image):
        return
    context = _empty(places.images / f"context-base.{os.getpid()}")
    (context / "Dockerfile").write_text(BASE_DOCKERFILE)
    (context / "base.tar").hardlink_to(archive)
    builder.build(image, context / "Dockerfile", context, None)
    shutil.rmtree(context)


def _context(places: Places, recipe: Recipe) -> Path:
    """Gather a Dockerfile's context; all file times are zero, so that fresh clones share cached layers."""
    context = _empty(places.images / f"context-{recipe.name}.{os.getpid()}")
    for source in recipe.sources:
        _copy(CHECKOUT / source, context / source)
    if recipe is PROMETHEUS:
        shutil.copy(base.prometheus_program(places), context / "prometheus")
    if recipe is ENVOY:
        shutil.copy(envoy_binary(places), context / "envoy")
    if recipe.extra:
        (context / "pyproject.toml").write_text(project_file(recipe))
    for path in [context, *context.rglob("*")]:
        os.utime(path, (0, 0))
    if recipe.extra:
        shutil.copytree(wheelhouse(places, recipe), context / "wheels", copy_function=os.link)
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
        builder = Docker(places) if docker_answers() else Buildah(places)
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
