#!/bin/bash
# Proves on a GPU what needs one: bash tests/gpu/run.sh [--rehearse] [--only PART...]. docs/how-to/gpu.md has the page.
# Needs Python 3.12 with torch, transformers and aiohttp; the rest is in build/gpu-bundle (make gpu-bundle).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=$PWD
python=${PYTHON:-}
if [ -z "$python" ]; then
  if [ -x .venv/bin/python ]; then python=$here/.venv/bin/python; else python=$(command -v python3); fi
fi
# a package named `tests` that some other project left in site-packages would win over this folder
mkdir -p build/gpu-path/tests
echo "__path__ = ['$here/tests']" > build/gpu-path/tests/__init__.py
path=$here/build/gpu-path:$here:$here/operator:$here/runtime
if [ -d build/gpu-bundle ] && "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))'; then
  path=$path:$here/build/gpu-bundle
fi
export PYTHONPATH=$path${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
# many processes share the cores, and small models on contending threads take many times as long
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
log=${OUT:-build}/gpu.log
"$python" -m tests.gpu "$@" 2>&1 | tee "$log"
