"""A pool's runtime as a process of this machine: with a pod's own environment, at an address of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock_api import names
from tests.support.kube.api import Api, Object

SETTINGS_VOLUME = "penstock-settings"


def start(
    pod: Object, address: str, folder: Path, more: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start the runtime that `pod` asks for; `folder` holds its settings, and Python's start-up file if there is one."""
    container = pod["spec"]["containers"][0]
    given = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    environ = {
        **{name: value for name, value in given.items() if name.startswith("PENSTOCK_")},
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        names.ENV_POD_UID: pod["metadata"]["uid"],
        names.ENV_POD_NAME: pod["metadata"]["name"],
        names.ENV_NAMESPACE: pod["metadata"]["namespace"],
        "PENSTOCK_SETTINGS_FOLDER": str(folder),
        "PENSTOCK_HOST": address,
        **more,
    }
    with (folder / "log").open("ab") as log:
        words = (sys.executable, "-m", "penstock_runtime")
        return subprocess.Popen(words, env=environ, stderr=log, cwd=folder)


def sync_settings(api: Api, pod: Object, folder: Path) -> None:
    """Bring the pool's ConfigMap into the pod's folder, as the kubelet does within a minute or so."""
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == SETTINGS_VOLUME)
    where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps"
    held = api.request("GET", f"{where}/{volume['configMap']['name']}")
    data: dict[str, str] = held["data"]
    for name, text in data.items():
        fresh = folder / f".{name}"
        fresh.write_text(text)
        fresh.replace(folder / name)  # nobody reads half of it
