"""Starts an agent job by key, sends it follow-ups, and prints its result: start_job.py [PROJECT] [KEY] [PROMPT].

The same project, key and prompt are the same job, however often it is started.
"""

import asyncio
import json
import os
import sys

from temporalio.client import Client

from agent_jobs import AgentJobs


async def main(project: str = "demo", key: str = "pricing", prompt: str = "Add a page about pricing") -> None:
    address = os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233")
    client = await Client.connect(address, namespace=os.environ.get("TEMPORAL_NAMESPACE", "default"))
    jobs = AgentJobs(client, os.environ.get("AGENT_JOBS_TASK_QUEUE", "agent-jobs"))
    job = await jobs.start(key, {"projectId": project, "prompt": prompt})
    print("Workflow", job.workflow_id, flush=True)
    for id, text in ("short", "Keep it short"), ("test", "Add a test"):
        print("Follow-up", id, (await job.follow_up(text, id=id))["state"], flush=True)
    print("Result", json.dumps(await job.result()))


asyncio.run(main(*sys.argv[1:]))
