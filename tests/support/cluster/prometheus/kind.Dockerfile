# The demo's Prometheus on kind: its published program with our discovery. Its context is this folder.
FROM prom/prometheus:v3.5.0 AS published
FROM python:3.11-slim
COPY --from=published /bin/prometheus /usr/bin/prometheus
COPY discovery.py /usr/lib/penstock/discovery.py
USER 65532:65532
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]
