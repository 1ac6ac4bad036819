"""Starts an agent job by name from Python, steers it with follow-ups, and waits for its end.

The same --key with the same project and prompt is the same job, however often it is started. With another prompt the
key is refused. Each follow-up has an id, and is sent once.
"""

import argparse
import asyncio
import json
import os
import uuid

from temporalio.client import Client

from agent_jobs import AgentJobs, KeyConflict


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default=os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"))
    parser.add_argument("--namespace", default=os.environ.get("TEMPORAL_NAMESPACE", "default"))
    parser.add_argument("--task-queue", default=os.environ.get("AGENT_JOBS_TASK_QUEUE", "agent-jobs"))
    parser.add_argument("--project", default="demo")
    parser.add_argument("--key", default=str(uuid.uuid4()), help="names the job (default: a new one each time)")
    parser.add_argument("--prompt", default="Add a page about pricing")
    options = parser.parse_args()

    client = await Client.connect(options.address, namespace=options.namespace)
    jobs = AgentJobs(client, options.task_queue)
    try:
        job = await jobs.start(options.key, {"projectId": options.project, "prompt": options.prompt})
    except KeyConflict as conflict:
        raise SystemExit(str(conflict)) from None
    print("Workflow", job.workflow_id, flush=True)
    if (await job.describe()).close_time is None:
        # A signal has no response; an update, which follow_up sends, has one.
        await job.handle.signal("followUp", {"prompt": "Keep it short", "id": "short"})
        answer = await job.follow_up("Add a test", id="test")
        print("Follow-up", answer["id"], answer["state"], flush=True)
        state = await job.state()
        print("State", state["phase"], state["jobId"], flush=True)
    result = await job.result()
    print("Outcome", result["outcome"], (result["job"] or {}).get("prLink"))
    print("Result", json.dumps(result))


asyncio.run(main())
