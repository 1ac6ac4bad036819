"""Starts an agent job by name from Python, steers it with follow-ups, and waits for its end.

It needs only a Temporal client. The same --key with the same project and prompt is the same job, however often it is
started. With another prompt the key is refused.
"""

import argparse
import asyncio
import hashlib
import json
import os
import uuid
from urllib.parse import quote

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

SURELY_NO_JOB = ("InvalidInput", "CreateRejected")


async def start(client: Client, project: str, key: str, prompt: str, task_queue: str) -> WorkflowHandle:
    """Starts the job, or joins the one that the key already names."""
    workflow_id = f"agent-job/{quote(project, safe='')}/{quote(key, safe='')}"
    input_hash = hashlib.sha256(f"{project}\0prompt\0{prompt}".encode()).hexdigest()

    async def start_under(policy: WorkflowIDReusePolicy) -> WorkflowHandle:
        try:
            await client.start_workflow(
                "agentJob",
                {"projectId": project, "prompt": prompt},
                id=workflow_id,
                task_queue=task_queue,
                memo={"inputHash": input_hash},
                id_reuse_policy=policy,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
        except WorkflowAlreadyStartedError:
            pass  # A run that has ended holds the key.
        return client.get_workflow_handle(workflow_id)

    handle = await start_under(WorkflowIDReusePolicy.REJECT_DUPLICATE)
    if await failed_without_job(handle):
        return await start_under(WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
    memo = await (await handle.describe()).memo()
    if memo.get("inputHash", input_hash) != input_hash:
        raise SystemExit(f"The key {key} names a job with another prompt")
    return handle


async def failed_without_job(handle: WorkflowHandle) -> bool:
    """Whether the key's run failed in a way after which there is surely no job, so that the key may start again."""
    status = (await handle.describe()).status
    if status is None or status.name != "FAILED":
        return False
    try:
        await handle.result()
    except WorkflowFailureError as error:
        return isinstance(error.cause, ApplicationError) and error.cause.type in SURELY_NO_JOB
    return False


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
    handle = await start(client, options.project, options.key, options.prompt, options.task_queue)
    print("Workflow", handle.id, flush=True)
    if (await handle.describe()).close_time is None:
        # A follow-up with an id is sent once, whoever repeats it. A signal has no response; an update has one.
        await handle.signal("followUp", {"prompt": "Keep it short", "id": "short"})
        answer = await handle.execute_update("sendFollowUp", {"prompt": "Add a test", "id": "test"})
        print("Follow-up", answer["id"], answer["state"], flush=True)
        state = await handle.query("jobState")
        print("State", state["phase"], state["jobId"], flush=True)
    result = await handle.result()
    print("Outcome", result["outcome"], (result["job"] or {}).get("prLink"))
    print("Result", json.dumps(result))


asyncio.run(main())
