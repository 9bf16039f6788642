"""First installation of the chart on a control plane without CRDs: `unshare --net python -m ... FOLDER` prints what happened."""

import json
import sys
from pathlib import Path

from tests.bench.scale import plane
from tests.support.cluster.places import Places
from tests.support.kube.install import CHART
from tests.support.kube.target import ProgramFailedError, Target

IMAGES = "replicas=0,image.repository=x/operator,runtimeImage.repository=x/runtime"
DEFAULTS = ("--set", "poolDefaults.scaling.minReplicas=2")
POLICY = "/apis/penstock.dev/v1alpha1/inferencepolicies/penstock-defaults"


def first_install(folder: Path) -> dict[str, object]:
    """Return the rejection of defaults of pools, the revision after both further steps, and the policy's defaults."""
    plane.enter_network()
    with plane.running(folder) as control_plane:
        kubeconfig = str(control_plane.places.kubeconfig)
        target = Target(kubeconfig, None, Places.from_env().commands)
        release = ("penstock", CHART, "--namespace", "penstock-system", "--create-namespace", "--set", IMAGES)  # fmt: skip
        try:
            target.helm("install", *release, *DEFAULTS)
            rejection = ""
        except ProgramFailedError as error:
            rejection = str(error)
        target.helm("install", *release)
        upgraded = target.helm("upgrade", *release, *DEFAULTS)
        policy = control_plane.api.request("GET", POLICY)
    return {
        "rejection": rejection,
        "upgraded": "STATUS: deployed\nREVISION: 2" in upgraded,
        "defaults": policy["spec"]["defaults"],
    }


if __name__ == "__main__":
    print(json.dumps(first_install(Path(sys.argv[1]))))
