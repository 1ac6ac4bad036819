"""Starts an agent job by name from Python, steers it with a follow-up, and waits for its end: a Temporal client is all it takes."""

import argparse
import asyncio
import os
import uuid
from urllib.parse import quote

from temporalio.client import Client


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default=os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"))
    parser.add_argument("--namespace", default=os.environ.get("TEMPORAL_NAMESPACE", "default"))
    parser.add_argument("--task-queue", default="agent-jobs")
    parser.add_argument("--project", default="demo")
    parser.add_argument("--prompt", default="Add a page about pricing")
    options = parser.parse_args()

    client = await Client.connect(options.address, namespace=options.namespace)
    handle = await client.start_workflow(
        "agentJob",
        {"projectId": options.project, "prompt": options.prompt},
        id=f"agent-job/{quote(options.project, safe='')}/{uuid.uuid4()}",
        task_queue=options.task_queue,
    )
    print("Workflow", handle.id, flush=True)
    answer = await handle.execute_update("sendFollowUp", {"prompt": "Keep it short"})
    print("Follow-up", answer["state"], flush=True)
    result = await handle.result()
    print("Outcome", result["outcome"], (result["job"] or {}).get("prLink"))


asyncio.run(main())
