#!/bin/sh
# Registers the namespace with its retention where it is missing, and the search attributes of the jobs. Safe to run again.
# TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE are read by the CLI itself.
set -eu

attempts=0
until temporal operator cluster health >/dev/null 2>&1; do
  attempts=$((attempts + 1))
  if [ "$attempts" -ge 30 ]; then
    echo "Temporal at $TEMPORAL_ADDRESS is not healthy" >&2
    exit 1
  fi
  sleep 2
done

# One that is there keeps its retention: it may have been raised, and keys would be forgotten sooner.
if ! temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi

# A new namespace takes some seconds to be known to every part of the server.
for name in AgentJobProject AgentJobPhase AgentJobStatus AgentJobPrLink; do
  attempts=0
  until temporal operator search-attribute list | grep -qw "$name"; do
    attempts=$((attempts + 1))
    if [ "$attempts" -ge 30 ]; then
      echo "search attribute $name could not be registered" >&2
      exit 1
    fi
    temporal operator search-attribute create --name "$name" --type Keyword || sleep 2
  done
done
echo "namespace $TEMPORAL_NAMESPACE is ready"
