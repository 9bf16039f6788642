# The image of the gateways' controller; Envoy has an image of its own. From the repository's root:
#   docker build -f operator/gateway.Dockerfile -t penstock-gateway .
# BASE needs python3 (3.11) with venv. Wheels in the folder `operator/wheels` replace the package index.
ARG BASE=python:3.11-slim
FROM ${BASE}
ENV PATH=/opt/penstock/bin:$PATH PYTHONUNBUFFERED=1

# Dependencies: a layer that changes only with pyproject.toml.
COPY pyproject.toml /opt/penstock/
RUN --mount=type=bind,source=operator/wheels,target=/wheels set -eu; cd /opt/penstock; python3 -m venv .; \
    python3 -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*p['dependencies'], *p['optional-dependencies']['gateway'], sep='\n')" > requirements.txt; \
    index=; if ls /wheels/*.whl > /dev/null 2>&1; then index='--no-index --find-links /wheels'; fi; \
    pip install --no-cache-dir --disable-pip-version-check $index --requirement requirements.txt; \
    echo /opt/penstock/source > "$(python3 -c 'import site; print(site.getsitepackages()[0])')/penstock.pth"

# The controller itself: a small layer, byte-compiled because the root file system is read-only.
COPY operator/penstock_api /opt/penstock/source/penstock_api
COPY operator/penstock_gateway /opt/penstock/source/penstock_gateway
RUN python3 -m compileall -q /opt/penstock/source

USER 65532:65532
EXPOSE 8091
ENTRYPOINT ["python3", "-m", "penstock_gateway"]
