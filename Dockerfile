# Debian, because the Temporal SDK's native part needs glibc.
ARG NODE_IMAGE=node:22-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages ./packages
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json LICENSE ./
COPY src ./src
COPY scripts/bundle-workflows.mjs scripts/copy-page.mjs scripts/
COPY scripts/release/keep-optional.mjs scripts/release/
# The README of the client's package.
COPY docs/client.md docs/
# S3 and charts are optional in the package. A worker may need them, so they stay.
RUN npm run build && node scripts/release/keep-optional.mjs && npm prune --omit=dev --ignore-scripts

FROM ${NODE_IMAGE}
# glibc gives freed memory back to the system from 128 KiB on. By itself it raises that limit to up to 64 MiB, and each
# of some twenty threads keeps so much.
ENV NODE_ENV=production \
    MALLOC_TRIM_THRESHOLD_=131072 \
    HEALTH_ADDRESS=[::]:8081 \
    METRICS_ADDRESS=[::]:9464
# The root certificates, by which the SDK trusts Temporal: a slim image has none.
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/packages ./packages
# What the schemas describe, and the OpenAPI document of `agent-jobs serve`.
COPY docs/contract ./docs/contract
# A named volume takes over owner and mode of the folder that it covers: snapshots, and the journal of the sandbox. A
# platform that chooses a user of its own, such as OpenShift, gives it the group 0.
RUN mkdir /snapshots /data && chown 10001:0 /snapshots /data && chmod 0775 /snapshots /data
USER 10001:10001
EXPOSE 8081 9464
STOPSIGNAL SIGTERM
# Alive, not ready: while Temporal is away the worker waits, and a restart would not help.
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.HEALTH_ADDRESS.split(':').pop()}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# Node itself is process 1 and gets the signals; no shell stands between.
ENTRYPOINT ["node"]
CMD ["dist/worker.js"]
