"""A pool's runtime as a process on this machine, with a pod's environment and its own address."""

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
    """Start the runtime that `pod` specifies; `folder` contains its settings, and optionally a `sitecustomize` module."""
    container = pod["spec"]["containers"][0]
    given = {
        variable["name"]: variable["value"] for variable in container["env"] if "value" in variable
    }
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
    """Write the pool's ConfigMap to the pod's folder, as the kubelet does within about a minute."""
    (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == SETTINGS_VOLUME)
    where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps"
    config_map = api.request("GET", f"{where}/{volume['configMap']['name']}")
    data: dict[str, str] = config_map["data"]
    for name, text in data.items():
        fresh = folder / f".{name}"
        fresh.write_text(text)
        fresh.replace(folder / name)  # atomic: the runtime never reads a partial file
