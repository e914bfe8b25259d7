FROM python:3.13-slim
RUN --mount=type=bind,target=/wheels pip install --no-cache-dir /wheels/gimlet-*.whl
ENTRYPOINT ["gimlet"]
