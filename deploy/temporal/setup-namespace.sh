#!/bin/sh
# Registers the namespace with its retention, and the search attributes of the jobs, if they are missing.
# Safe to run again. The CLI itself reads TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.
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

# An existing namespace keeps its retention. It may have been raised, and a lower one would forget keys sooner.
if ! temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi

# It takes some seconds until every part of the server knows a new namespace, so the registration is retried.
for name in AgentJobProject AgentJobPhase AgentJobStatus AgentJobPrLink AgentJobWaitingFor AgentJobBatch AgentJobTags \
  AgentJobOutcome AgentJobId; do
  case "$name" in
    AgentJobTags) type=KeywordList ;;
    *) type=Keyword ;;
  esac
  attempts=0
  until temporal operator search-attribute list | grep -qw "$name"; do
    attempts=$((attempts + 1))
    if [ "$attempts" -ge 30 ]; then
      echo "search attribute $name could not be registered" >&2
      exit 1
    fi
    temporal operator search-attribute create --name "$name" --type "$type" || sleep 2
  done
done
echo "namespace $TEMPORAL_NAMESPACE is ready"
