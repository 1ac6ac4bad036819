"""What a caller may rely on: each step prints one line of JSON. The TypeScript example prints the same."""

import asyncio
import json
import os
import sys
from typing import Any

from temporalio.client import Client

from agent_jobs import AgentJobs, Job, JobFailed, KeyConflict

# How long an end after a follow-up must stand. With the default of 30 seconds the story would take minutes.
SETTLE = {"settle": "1 second"}
# How each of these jobs ends is decided by the sandbox upstream, which goes by the key.
ENDS = ["archived", "failed", "timedOut", "abandoned", "InvalidInput", "CreateRejected", "UnknownOutcome"]
OPTIONS: dict[str, Any] = {
    "timedOut": {"deadline": "1 second"},
    "InvalidInput": {"deadline": "tomorrow"},
    "UnknownOutcome": {"onUnknownOutcome": "fail"},
}


def report(step: str, **facts: Any) -> None:
    print(json.dumps({"step": step, **facts}), flush=True)


async def end_of(job: Job) -> str:
    try:
        return (await job.result())["outcome"]
    except JobFailed as failure:
        return failure.type


async def main(project: str) -> None:
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], namespace=os.environ["TEMPORAL_NAMESPACE"])
    jobs = AgentJobs(client, os.environ["AGENT_JOBS_TASK_QUEUE"])
    ticket: Any = {"projectId": project, "prompt": "Schreib «Grüße» 🐍\n", **SETTLE}

    others = {end: await jobs.start(end, {"projectId": project, "prompt": end, **OPTIONS.get(end, {})}) for end in ENDS}
    canceled = await jobs.start("Canceled", {"projectId": project, "prompt": "Canceled", **SETTLE})
    terminated = await jobs.start("Terminated", {"projectId": project, "prompt": "Terminated"})

    job = await jobs.start("a (ticket)/1:2", ticket)
    report("started", workflowId=job.workflow_id, isNew=job.is_new)
    again = await jobs.start("a (ticket)/1:2", ticket)
    report("repeated while it runs", workflowId=again.workflow_id, isNew=again.is_new)
    try:
        await jobs.start("a (ticket)/1:2", {**ticket, "prompt": "Another"})
    except KeyConflict:
        report("another prompt conflicts")
    first = await job.follow_up("Add a test", id="test")
    second = await job.follow_up("Add a test", id="test")
    report("follow-up said twice", states=[first["state"], second["state"]])
    while (state := await job.state())["waiting"] is None:
        await asyncio.sleep(0.1)
    report("state while it waits", phase=state["phase"], waitsFor=state["waiting"]["for"], jobId=state["jobId"])
    result = await job.result()
    report("ended", outcome=result["outcome"], prLink=result["prLink"], jobId=result["jobId"])
    again = await jobs.start("a (ticket)/1:2", ticket)
    report("repeated after its end", workflowId=again.workflow_id, isNew=again.is_new)
    known = await job.follow_up("Add a test", id="test")
    report("used id after the end", state=known["state"])
    after, twin = await asyncio.gather(job.follow_up("Add docs", id="docs"), job.follow_up("Add docs", id="docs"))
    report("follow-up after the end", states=[after["state"], twin["state"]])
    result = await job.result()
    facts: Any = {"usedIds": result["usedFollowUpIds"], "sawWork": result["sawWork"], "links": len(result["prLinks"])}
    report("ended again", outcome=result["outcome"], jobId=result["jobId"], **facts)
    last = await job.follow_up("One more", id="last")
    result = await job.result()
    report("ended once more", state=last["state"], outcome=result["outcome"], usedIds=result["usedFollowUpIds"])
    again = await jobs.start("a (ticket)/1:2", ticket)
    report("repeated after all", isNew=again.is_new)

    await canceled.handle.cancel()
    end = await end_of(canceled)
    answer = await canceled.follow_up("Go on", id="on")
    report("follow-up after a cancel", ended=end, state=answer["state"], outcome=await end_of(canceled))
    await terminated.handle.terminate("by the story")
    abandoned = others["abandoned"]
    while (await abandoned.state())["unknown"] is None:
        await asyncio.sleep(0.2)
    await abandoned.handle.execute_update("resolveUnknown", {"action": "abandon"})
    for end, other in {**others, "Terminated": terminated}.items():
        report("each end", expected=end, found=await end_of(other))
    another: Any = {"projectId": project, "prompt": "Another prompt"}
    jobs_again = await asyncio.gather(*[jobs.start("CreateRejected", another) for _ in range(5)])
    report("rejected create starts again", outcomes=[await end_of(one) for one in jobs_again])


asyncio.run(main(sys.argv[1]))
# The client's own threads can crash an interpreter that is about to end, when all is said.
os._exit(0)
