# The live service: docker build -t tsadc . && docker run --read-only --tmpfs /tmp -v tsadc:/data -p 8731:8731 tsadc
# /data holds config.toml, the models and the store; docs/guides/serve.md has an example.
FROM python:3.11-slim-bookworm AS build
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN python -m venv /opt/tsadc && /opt/tsadc/bin/pip install --no-cache-dir '/source[serve,parquet]'

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data --create-home tsadc
COPY --from=build /opt/tsadc /opt/tsadc
ENV PATH=/opt/tsadc/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8731
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import json, urllib.request as r; s = json.load(r.urlopen('http://127.0.0.1:8731/v1/health', timeout=4))['status']; raise SystemExit(s == 'failing')"]
ENTRYPOINT ["tsadc", "serve"]
CMD ["/data/config.toml"]
